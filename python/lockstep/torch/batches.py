"""The seam to data: which samples each rank consumes, and in which order samplers gave them out.

Class patches: DistributedSampler.__iter__ and the loaders' iterators. A loader asks its sampler ahead
of time; samples count when the batch is handed to the loop, and are recorded by the forward that
follows. Loaders over iterable data sets have no indices: nothing is recorded for them.
"""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import dataloader
from torch.utils.data.distributed import DistributedSampler

from lockstep.torch.samplers import held_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder
    from lockstep.torch.streams import Draw
    from lockstep.torch.wrapping import Wrapper

SEAM = "batches"


class Batches:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.handed: list[int] | None = None  # The batch that no forward has seen yet.
        self.drawn: list[Draw] = []  # Streams that it, or one before it, drew from first.
        self._size: tuple[int, int] | None = None  # Wrapper and samples of the last forward.

    def consumed(self, wrapper: Wrapper, training: bool) -> None:
        """A forward begins: it consumes the batch that was handed out last."""
        pen, ids, self.handed = self.recorder.pen, self.handed, None
        program = self.recorder.program
        if pen is None or ids is None:
            return
        drawn, self.drawn = self.drawn, []
        for draw in drawn if training else ():
            self.recorder.streams.write(wrapper, draw)
        self.write_size()
        if training and wrapper.looks and not program.batch_given:
            self._size = (wrapper.index, len(ids))
        if not program.gives_samples:
            pen.sample(wrapper.index, "train" if training else "eval", ids)

    def forget_size(self) -> None:
        """The program says by itself what the batch counts."""
        self._size = None

    def write_size(self) -> None:
        """No event says what the loss is meant to be: judge by what DDP does, the mean over ranks.

        Before the backward of that forward, so that the program may say something else until then.
        """
        size, self._size = self._size, None
        if size is not None and self.recorder.pen is not None:
            self.recorder.pen.batch(size[0], size[1], size[1], float(size[1]), "rank-mean")

    def began(self, sampler: Any) -> None:
        """A pass over a distributed sampler begins."""
        recorder = self.recorder
        if recorder.pen is None or recorder.program.gives_epochs:
            return
        if held_by(sampler) is not None:
            return  # It has a sampler for its data set, whose order counts.
        split = recorder.next_pass()
        key = int(sampler.seed) + int(sampler.epoch)
        recorder.pen.epoch(split, _kind_of(sampler), key & (1 << 64) - 1, _order_of(sampler, key),
                           len(sampler.dataset), sampler.num_replicas, sampler.num_samples,
                           bool(sampler.shuffle), bool(sampler.drop_last), not sampler.drop_last)


def _kind_of(sampler: Any) -> str:
    return "distributed" if type(sampler) is DistributedSampler else type(sampler).__name__


def _order_of(sampler: Any, key: int) -> torch.Tensor:
    """The order of the whole epoch, as the sampler makes it from its own key: cut, or filled up with its
    beginning, to what all ranks take together."""
    size = len(sampler.dataset)
    order = torch.arange(size)
    if sampler.shuffle:
        generator = torch.Generator()
        generator.manual_seed(key)
        order = torch.randperm(size, generator=generator)
    whole = sampler.num_samples * sampler.num_replicas
    return order if whole == size or not size else order.repeat(-(-whole // size))[:whole]


def _ids_of(index: Any) -> list[int]:
    return [int(one) for one in index] if isinstance(index, (list, tuple)) else [int(index)]


def install(recorder: Recorder) -> None:
    batches = recorder.batches = Batches(recorder)

    def make_iter(real: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(self: Any) -> Any:
            recorder.quietly(SEAM, lambda: batches.began(self))
            return real(self)
        return __iter__

    def make_next_index(real: Callable[..., Any]) -> Callable[..., Any]:
        def _next_index(self: Any) -> Any:
            index = real(self)
            if self._dataset_kind == dataloader._DatasetKind.Map:
                self.__dict__.setdefault("_lockstep_asked", deque()).append(index)
            return index
        return _next_index

    def make_next(real: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(self: Any) -> Any:
            data = real(self)
            asked = self.__dict__.get("_lockstep_asked")
            if asked:
                index = asked.popleft()
                batches.handed = recorder.quietly(SEAM, lambda: _ids_of(index))
                batches.drawn += recorder.quietly(SEAM, lambda: recorder.streams.handed(self)) or []
            return data
        return __next__

    def make_reset(real: Callable[..., Any]) -> Callable[..., Any]:
        def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.__dict__.pop("_lockstep_asked", None)
            return real(self, *args, **kwargs)
        return _reset

    base = dataloader._BaseDataLoaderIter
    recorder.patches.wrap(DistributedSampler, "__iter__", make_iter)
    recorder.patches.wrap(base, "_next_index", make_next_index)
    recorder.patches.wrap(base, "__next__", make_next)
    recorder.patches.wrap(base, "_reset", make_reset)
    # A for loop calls `next`, which older versions keep beside __next__ under the same function.
    recorder.patches.wrap(dataloader._MultiProcessingDataLoaderIter, "_reset", make_reset)
