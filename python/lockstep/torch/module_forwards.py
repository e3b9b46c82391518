"""The public hook on the module inside a wrapper: it also sees forwards that go past the wrapper."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.torch.module_hooks import ModuleHook

if TYPE_CHECKING:
    import torch

    from lockstep.torch.wrapping import Wrapper

SEAM = "wrapping"  # One seam in two files.


class Entry(ModuleHook):
    """The pre-hook on the inner module."""

    def __init__(self, wrapper: Wrapper) -> None:
        self._wrapper = wrapper

    def __call__(self, module: torch.nn.Module, inputs: Any) -> None:
        wrapper = self._wrapper
        batches = wrapper.recorder.batches
        outer = batches.inputs
        batches.inputs = outer or inputs
        try:
            wrapper.entering(module)
        except Exception as error:
            wrapper.recorder.trouble(SEAM, error)
        finally:
            batches.inputs = outer
