"""What the forwards of a wrapper are given, row by row, and what their losses compare the outputs with: values say which
samples a rank trains on where no loader does, as where a program picks rows of a tensor by lists of numbers or draws noise."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lockstep.torch.data_read import plain_tensors

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder

MOST_ROWS = 1024  # Of each argument, from the first forward on ...
MOST_BYTES = 1 << 26  # ... or as many as have this many bytes: rows may be images.
MOST_RANKS = 64
TARGET = "target"


class InputRows:
    """Of one wrapper. A budget leaves no time to read them."""

    def __init__(self, recorder: Recorder, wrapper: int) -> None:
        self._recorder = recorder
        self._wrapper = wrapper
        self._n_rows: dict[str, int] = {}
        self._n_bytes: dict[str, int] = {}
        self._open = not recorder.looking.budget and recorder.rank < MOST_RANKS
        self._trains = False

    def write(self, inputs: Any, trains: bool) -> None:
        """Of a forward that begins."""
        self._trains = trains
        if not trains or not self._open:
            return
        for place, tensor in enumerate(plain_tensors(inputs, True), start=1):
            self._write(str(place), tensor)
        self._open = not self._n_rows or any(self._wants(name) for name in self._n_rows)

    def write_target(self, node: Any) -> None:
        """Of the loss that ends with this node, before its backward. Labels and single numbers may be alike on all ranks."""
        target = getattr(node, "_saved_target", None) if self._trains and self._open else None
        if not isinstance(target, torch.Tensor) or target.dim() == 0:
            return
        is_real, is_number = target.is_floating_point(), target.numel() == len(target)
        exchanges = self._recorder.exchanges  # Places among rows that the loss has gathered are not alike on all ranks.
        if is_number and not is_real and exchanges is not None and exchanges.open or is_real and not is_number:
            self._write(TARGET, target)

    def _wants(self, name: str) -> bool:
        return self._n_rows.get(name, 0) < MOST_ROWS and self._n_bytes.get(name, 0) < MOST_BYTES

    def _write(self, name: str, tensor: torch.Tensor) -> None:
        """What needs a gradient has been computed."""
        pen = self._recorder.pen
        if pen is None or tensor.requires_grad or tensor.dim() == 0 or not self._wants(name) or _is_captured(tensor):
            return
        n = min(len(tensor), MOST_ROWS)
        values = tensor.detach()[:n].cpu()
        pen.input(self._wrapper, name, values, n)
        self._n_rows[name] = self._n_rows.get(name, 0) + n
        self._n_bytes[name] = self._n_bytes.get(name, 0) + values.nbytes


def _is_captured(tensor: torch.Tensor) -> bool:
    """A graph of a GPU is being captured, which a copy to the host would end."""
    return bool(tensor.is_cuda and torch.cuda.is_current_stream_capturing())
