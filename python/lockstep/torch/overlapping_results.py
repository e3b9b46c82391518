"""Collectives that write what they receive of several ranks into the same memory, as `[torch.zeros(n)] * ranks` asks for."""
from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lockstep.enums import CollectiveOp, LogKind
from lockstep.torch.recorder import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.torch.recorder import Recorder

_RECEIVING = (CollectiveOp.ALL_GATHER, CollectiveOp.GATHER, CollectiveOp.ALL_TO_ALL)


def overlap(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether two share memory. Tensors that leave gaps, such as columns of one matrix, may do so and count as if they did not."""
    spans = sorted((one.data_ptr(), one.data_ptr() + one.numel() * one.element_size()) for one in tensors
                   if one.layout is torch.strided and one.numel() > 0 and one.is_contiguous())
    return any(end > start for (_, end), (start, _) in zip(spans, spans[1:]))


class OverlappingResults:
    """Of one rank. A place in the program is named once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._places: set[tuple[str, int]] = set()

    def posted(self, op: CollectiveOp, outputs: Sequence[torch.Tensor], file: str, line: int) -> None:
        if op not in _RECEIVING or len(outputs) < 2 or (file, line) in self._places or not overlap(outputs):
            return
        self._places.add((file, line))
        where = f" at {file}:{line}" if file else ""
        text = f"the {op.name.lower()}{where} writes what several ranks have sent into the same memory"
        say(f"rank {self._recorder.rank}: {text}")
        if self._recorder.pen is not None:
            self._recorder.pen.log(LogKind.RESULTS_OVERLAP, text)
