"""What a program without a wrapper has read before it is known what for: a step shows that, and by then its batches
have passed by."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.torch.data_read import Handed

MOST = 256  # Batches before a step. Of more, none are kept: a part of a pass says nothing.


class FirstBatches:
    """Those of the last pass that was begun, in order: before it a program may have looked at its data."""

    def __init__(self) -> None:
        self._read: list[tuple[Any, Any, Handed]] = []  # Pass, share and batch.
        self._of: tuple[Any, Any] = None, None  # Pass and share of these, and of those that were too many.
        self._too_many = False

    def keep(self, begun: Any, share: Any, handed: Handed) -> None:
        if self._of[0] is not begun or self._of[1] is not share:
            self._of = begun, share
            self._too_many = False
            self._read.clear()
        if len(self._read) == MOST:
            self._too_many = True
            self._read.clear()
        if not self._too_many:
            self._read.append((begun, share, handed._replace(values=None, source="")))

    def take(self) -> list[tuple[Any, Any, Handed]] | None:
        """Returns: None where they were too many."""
        read, self._read = self._read, []
        return None if self._too_many else read
