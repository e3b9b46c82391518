"""What autocast has the operations of a forward compute in."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = {torch.float16: "f16", torch.bfloat16: "bf16"}


def _by_device() -> Callable[[str], torch.dtype | None]:
    """Says in which type operations on a kind of device compute, None = autocast is off there."""
    if hasattr(torch, "get_autocast_dtype"):  # Since 2.4, with the kind of device as an argument.
        return lambda kind: torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    known: dict[str, tuple[Any, Any]] = {
        "cpu": (torch.is_autocast_cpu_enabled, torch.get_autocast_cpu_dtype),
        "cuda": (torch.is_autocast_enabled, torch.get_autocast_gpu_dtype)}

    def ask(kind: str) -> torch.dtype | None:
        enabled, dtype = known.get(kind, (lambda: False, lambda: None))
        return dtype() if enabled() else None
    return ask


_dtype_on = _by_device()
# One question for all kinds of devices, in almost every forward the only one.
_is_any_on: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)


def word_for(parameters: dict[str, torch.nn.Parameter]) -> str:
    """"f16" or "bf16" where autocast is on for the kind of device that the parameters are on, else "".

    No other type has a word: forwards in it are recorded as forwards without autocast.
    """
    if not parameters or not _is_any_on():
        return ""
    dtype = _dtype_on(next(iter(parameters.values())).device.type)
    return "" if dtype is None else WORDS.get(dtype, "")
