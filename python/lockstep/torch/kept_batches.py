"""Batches that a program keeps and trains on again, in the order in which they first came.

    batches = itertools.cycle(loader)        batches = list(loader)
    for step in range(1000):                 for epoch in range(10):
        train(next(batches))                     sampler.set_epoch(epoch)      # asks the sampler for nothing
                                                 for batch in batches: train(batch)

A sampler that shuffles is asked once, and each epoch has the order and the batches of the first. Nothing is drawn, so no event shows it: the rank
says it at its end. Known by the first tensor of each forward's inputs: most programs drop it before the next one, and are not followed any more.
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from lockstep.enums import LogKind
from lockstep.torch.data_read import first_tensor
from lockstep.torch.recorder import say

if TYPE_CHECKING:
    import torch

    from lockstep.torch.recorder import Recorder

SEAM = "kept_batches"
MOST = 4096
HELD = 4  # A loop may hold on to this many of its last batches, for a while.


class KeptBatches:
    def __init__(self) -> None:
        self._first: list[weakref.ref[torch.Tensor]] = []  # Of the forwards of the first pass, each once.
        self._place_of: dict[int, int] = {}  # In that pass, by a tensor's id.
        self._last = -1  # The place of the last forward's.
        self._n_again = 0  # Forwards since the pass, whose tensors came in its order.
        self._follows = True

    def forward(self, inputs: Any) -> None:
        """A forward of the training begins."""
        if not self._follows:
            return
        tensor = first_tensor(inputs)
        if tensor is None or not self._is_next(tensor):
            self._follows = False
            self._first.clear()
            self._place_of.clear()

    def _is_next(self, tensor: torch.Tensor) -> bool:
        """Whether all tensors of the pass are kept, and this one belongs to it or comes again in its turn."""
        n = len(self._first)
        if any(one() is None for one in (*self._first[:1], *self._first[-HELD:][:1])):
            return False
        place = self._place_of.get(id(tensor))
        if place is None or self._first[place]() is not tensor:
            if self._n_again or n == MOST:
                return False
            self._place_of[id(tensor)] = n
            self._first.append(weakref.ref(tensor))
            self._last = n
            return True
        if place == self._last:
            return True  # Another forward of one batch.
        if place != (self._last + 1) % n:
            return False
        self._last = place
        self._n_again += 1
        return True

    def text(self) -> str:
        """Empty: nothing to say, since not all of a pass, or of a single batch, came again."""
        n = len(self._first)
        if n < 2 or self._n_again < n:
            return ""
        return (f"{n} batches of a sampler that shuffles were kept, as a list or itertools.cycle() keeps them, and trained on "
                f"again {self._n_again} times in one order")


def install(recorder: Recorder) -> None:
    def write() -> None:
        text = recorder.batches.kept.text() if recorder.batches.shuffles else ""
        if text:
            say(f"rank {recorder.rank}: {text}")
            if recorder.pen is not None:
                recorder.pen.log(LogKind.BATCHES_KEPT, text)

    recorder.before_end.append(write)
