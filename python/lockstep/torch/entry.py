"""The public hook on the module inside a wrapper: it also sees forwards that go past the wrapper."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from lockstep.torch.wrapping import Wrapper

SEAM = "wrapping"  # One seam in two files.


class Entry:
    """The pre-hook on the inner module. A copy or a pickle of the module takes none along."""

    def __init__(self, wrapper: Wrapper | None) -> None:
        self._wrapper = wrapper

    def __call__(self, module: torch.nn.Module, inputs: Any) -> None:
        wrapper = self._wrapper
        if wrapper is None:
            return
        batches = wrapper.recorder.batches
        outer = batches.inputs
        batches.inputs = outer or inputs
        try:
            wrapper.entering(module)
        except Exception as error:
            wrapper.recorder.trouble(SEAM, error)
        finally:
            batches.inputs = outer

    def __deepcopy__(self, _memo: Any) -> Entry:
        return Entry(None)

    def __reduce__(self) -> Any:
        # What is loaded where there is no Lockstep: a call that gives the inputs back unchanged.
        return getattr, ({}, "get")
