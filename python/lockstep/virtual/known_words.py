"""Words that only the native part knows: asked for before PyTorch is imported, which takes seconds."""
from __future__ import annotations

import socket
from functools import cache
from typing import TYPE_CHECKING

from lockstep import _core
from lockstep.report import BUFFER_POLICIES
from lockstep.virtual import arena

if TYPE_CHECKING:
    from collections.abc import Sequence

_ARENA_BYTES = 1 << 16


class Unknown(ValueError):
    """The value of an option is not among the words that there are."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(why)
        self.option = option


def require(*, order: str, strategy: str, pairing: str, allow: Sequence[str], buffers: str) -> None:
    """Raises Unknown."""
    if buffers not in ("", *BUFFER_POLICIES):
        raise Unknown("buffers", f"must be one of {', '.join(BUFFER_POLICIES)}, not '{buffers}'")
    for law in allow:
        try:
            _core.known_law(law.partition("@")[0])
        except ValueError as error:
            raise Unknown("allow", str(error)) from None
    _rehearse("order", order, "", "strict")
    _rehearse("pairing", "rank", "", pairing)
    if not strategy.startswith("@"):  # Whether a recorded schedule fits, only its program shows.
        _rehearse("strategy", "rank", strategy, "strict")


@cache
def _rehearse(option: str, order: str, strategy: str, pairing: str) -> None:
    """A job of one rank, which is gone before it begins."""
    coordinators, ranks = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ranks.close()
    memory = arena.make_shared(_ARENA_BYTES)
    try:
        _core.coordinate([coordinators.detach()], [0], [arena.address_of(memory)], _ARENA_BYTES, "serial", strategy, 0, order,
                         pairing, False, [], [0, 0, 0, 0], [])
    except ValueError as error:
        raise Unknown(option, str(error)) from None
