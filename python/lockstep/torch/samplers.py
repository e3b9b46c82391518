"""The seam to samplers of any class whose draws something divides among the ranks: a sampler under a
wrapper that is a DistributedSampler, or under a batch sampler with a number of processes.

Patched for as long as it is recorded: __iter__ of the classes of samplers that are met at the bottom of
such loaders. The order is what that sampler draws. It is known where the sampler returns an iterator
over a list, or is a generator that yields from one, and is looked at without drawing anything; for
other samplers nothing is written.
"""
from __future__ import annotations

import copy
from collections.abc import Iterator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch.utils.data import dataloader
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import RandomSampler, Sampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "samplers"
MOST_LAYERS = 8
_LISTS: tuple[type, ...] = (type(iter([])), type(iter(())), type(iter(range(0))))


class Division(NamedTuple):
    """Who divides the draws of a sampler, and what each rank gets."""

    n_replicas: int
    per_rank: int
    drop_last: bool
    size: int  # Of the data set.


def below(sampler: Any) -> Any:
    """The sampler that this one takes its draws from; None at the bottom."""
    for name in ("batch_sampler", "sampler", "_sampler"):
        inner = getattr(sampler, name, None)
        if inner is not None and hasattr(inner, "__iter__"):
            return inner
    if isinstance(sampler, DistributedSampler):
        return held_by(sampler)
    return None


def held_by(sampler: Any) -> Any:
    """The sampler that a kind of DistributedSampler has for its data set; None if it has a real one."""
    if type(sampler) is DistributedSampler:
        return None
    for value in getattr(sampler.dataset, "__dict__", {}).values():
        if isinstance(value, Sampler):
            return value
    return None


def division_of(sampler: Any, size: int) -> tuple[Any, Division] | None:
    """The sampler at the bottom and who divides its draws; None where nothing does, or for PyTorch's own
    DistributedSampler, which is its own bottom."""
    division = None
    for _ in range(MOST_LAYERS):
        drop_last = bool(getattr(sampler, "drop_last", False))
        if isinstance(sampler, DistributedSampler):
            division = Division(sampler.num_replicas, sampler.num_samples, drop_last, size)
        elif isinstance(getattr(sampler, "num_processes", None), int):
            batch = int(getattr(sampler, "batch_size", None) or 0)
            share = sampler.num_processes if getattr(sampler, "split_batches", False) else 1
            division = Division(sampler.num_processes, len(sampler) * batch // share, drop_last, size)
        inner = below(sampler)
        if inner is None:
            break
        sampler = inner
    if division is None or division.n_replicas < 2 or isinstance(sampler, DistributedSampler):
        return None
    return sampler, division


def rest_of(iterator: Any) -> list[Any] | None:
    """What an iterator is still going to give, if that shows without asking it."""
    for _ in range(MOST_LAYERS):
        if isinstance(iterator, _Watched):
            iterator = iterator.real
        elif isinstance(iterator, GeneratorType):
            iterator = iterator.gi_yieldfrom
        else:
            break
    return list(copy.copy(iterator)) if isinstance(iterator, _LISTS) else None


class _Watched(Iterator[Any]):
    """Gives what another iterator gives, and looks at the rest once the first draw has been made."""

    def __init__(self, real: Any, drawn: Callable[[list[Any]], None]) -> None:
        self.real = real
        self._drawn: Callable[[list[Any]], None] | None = drawn

    def __next__(self) -> Any:
        value = next(self.real)
        drawn, self._drawn = self._drawn, None
        if drawn is not None:
            rest = rest_of(self.real)
            if rest is not None:
                drawn([value, *rest])
        return value


class Samplers:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._divided: WeakKeyDictionary[Any, Division] = WeakKeyDictionary()
        self._patched: set[type] = set()

    def met(self, loader: Any) -> None:
        """A pass over a loader begins."""
        recorder = self.recorder
        if recorder.pen is None or recorder.program.gives_epochs:
            return
        if loader._dataset_kind != dataloader._DatasetKind.Map:
            return
        found = division_of(loader._index_sampler, len(loader.dataset))
        if found is None:
            return
        sampler, division = found
        self._divided[sampler] = division
        if type(sampler) not in self._patched:
            self._patched.add(type(sampler))
            self.recorder.patches.wrap(type(sampler), "__iter__", self._make_iter)

    def _make_iter(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(sampler: Any) -> Any:
            iterator: Any = real(sampler)
            watched: Any = self.recorder.quietly(SEAM, lambda: self._watch(sampler, iterator))
            return iterator if watched is None else watched
        return __iter__

    def _watch(self, sampler: Any, iterator: Any) -> Any:
        found = self._divided.get(sampler)
        if found is None:
            return None
        division: Division = found

        def drawn(order: list[Any]) -> None:
            self.recorder.quietly(SEAM, lambda: self._write(sampler, division, order))

        if isinstance(iterator, _LISTS):
            drawn(list(copy.copy(iterator)))
            return None
        return _Watched(iterator, drawn) if isinstance(iterator, GeneratorType) else None

    def _write(self, sampler: Any, division: Division, drawn: list[Any]) -> None:
        pen = self.recorder.pen
        if pen is None or len(drawn) != len(sampler):
            return
        order = [int(one) for draw in drawn for one in (draw if isinstance(draw, list) else [draw])]
        whole = sorted(order) == list(range(division.size))
        by_epoch = callable(getattr(sampler, "set_epoch", None)) and order != sorted(order)
        split = self.recorder.next_pass()
        # Only shares of one whole order have to come from equal orders.
        pen.epoch(split, "random" if whole else type(sampler).__name__, 0, torch.tensor(order),
                  division.size, division.n_replicas if whole else 1, division.per_rank,
                  by_epoch or isinstance(sampler, RandomSampler), division.drop_last,
                  not division.drop_last)


def install(recorder: Recorder) -> None:
    samplers = Samplers(recorder)

    def make_init(real: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            recorder.quietly(SEAM, lambda: samplers.met(loader))
            real(self, loader, *args, **kwargs)
        return __init__

    def make_reset(real: Callable[..., Any]) -> Callable[..., Any]:
        def _reset(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.quietly(SEAM, lambda: samplers.met(loader))
            return real(self, loader, *args, **kwargs)
        return _reset

    recorder.patches.wrap(dataloader._BaseDataLoaderIter, "__init__", make_init)
    recorder.patches.wrap(dataloader._MultiProcessingDataLoaderIter, "_reset", make_reset)
