"""What DDP's broadcast of rank 0's buffers replaces on this rank.

A forward of the wrapper broadcasts before the module inside begins: the patch of the one looks at the buffers,
the hook on the other looks again. Running means and variances are left out, since each rank's come from
its own batches; batch norm's counters of batches are not, since ranks that run the same forwards have the same.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.torch.wrapping import Wrapper

_OF_OWN_BATCHES = ("running_mean", "running_var")


class ReplacedBuffers:
    """Those of one wrapper."""

    def __init__(self, wrapper: Wrapper) -> None:
        self._wrapper = wrapper
        self._names: list[str] = []
        self._held: list[Any] = []  # Between the two looks.

    def look(self, ddp: Any) -> None:
        """A forward of the wrapper begins."""
        wrapper, pen = self._wrapper, self._wrapper.recorder.pen
        self._held = []
        if pen is None or not wrapper.sees_entry or not ddp.broadcast_buffers:
            return
        shared = {name: buffer for name, buffer in wrapper.buffers.items()
                  if name.rpartition(".")[2] not in _OF_OWN_BATCHES}
        if shared:
            self._names, self._held = list(shared), list(shared.values())
            pen.look_at_buffers(wrapper.index, wrapper.layout(self._names), self._held)

    def write(self) -> None:
        """The forward of the module inside begins."""
        wrapper, pen = self._wrapper, self._wrapper.recorder.pen
        if self._held and pen is not None:
            pen.replaced(wrapper.index, wrapper.layout(self._names), self._held)
        self._held = []
