"""The seam to samplers of any class whose draws something divides among the ranks: a sampler under a
wrapper that is a DistributedSampler, or under a batch sampler with a number of processes. And to
samplers and batch samplers of the program's own that have an epoch (own_orders.py).

A sampler's __iter__ may ask its base class's, once or several times, or other samplers: all of that is
one pass, and the outermost is the one that is recorded.

Patched for as long as it is recorded: __iter__ of the classes of samplers that are met at the bottom of
such loaders. The order is what that sampler draws. It is known where the sampler returns an iterator
over a list, or is a generator that yields from one, and is looked at without drawing anything; of a
sampler with an epoch that is another generator, once it is exhausted. For others nothing is written.
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

from lockstep.torch.own_orders import OwnOrders, OwnPass, names_of_epoch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "samplers"
MOST_LAYERS = 8
MOST_TIMES = 2  # That a pass may have each sample, on average: some are drawn again on purpose.
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


def division_of(sampler: Any, size: int) -> tuple[Any, Division | None]:
    """The sampler at the bottom and who divides its draws; None where nothing does, or for a
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
        return sampler, None
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

    def __init__(self, real: Any, draws: _Draws, drawn: Callable[[list[Any]], None] | None) -> None:
        self.real = real
        self._draws = draws
        self._drawn = drawn

    def __next__(self) -> Any:
        with self._draws:
            value = next(self.real)
        drawn, self._drawn = self._drawn, None
        if drawn is not None:
            rest = rest_of(self.real)
            if rest is not None:
                drawn([value, *rest])
        return value


class _Collected(Iterator[Any]):
    """Gives what a generator gives, and says all of it in the end. One that gives more than `most` indices may have no end."""

    def __init__(self, real: Any, draws: _Draws, drawn: Callable[[list[Any]], None], most: int) -> None:
        self._real = real
        self._draws = draws
        self._drawn = drawn
        self._left = most
        self._given: list[Any] = []

    def __next__(self) -> Any:
        try:
            with self._draws:
                value = next(self._real)
        except StopIteration:
            given, self._given = self._given, []
            self._drawn(given)
            raise
        if self._left >= 0:
            self._left -= len(value) if isinstance(value, (list, tuple)) else 1
            self._given.append(value)
        else:
            self._given.clear()
        return value


class _Draws:
    """The draws of one pass; while one of them is made, what it asks of other samplers belongs to it."""

    def __init__(self, samplers: Samplers, noted: bool) -> None:
        self._samplers = samplers
        self._around: _Draws | None = None
        self.noted = noted  # What the pass draws from is written anyway, or has been.

    def __enter__(self) -> None:
        self._around, self._samplers.draws = self._samplers.draws, self

    def __exit__(self, *_: object) -> None:
        self._samplers.draws = self._around


class Samplers:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.draws: _Draws | None = None  # Of the outermost pass, while its sampler draws.
        # None for a class of DistributedSampler's with an __iter__ of its own, and for those that have orders of their own.
        self._divided: WeakKeyDictionary[Any, Division | None] = WeakKeyDictionary()
        self._own: WeakKeyDictionary[Any, OwnOrders] = WeakKeyDictionary()
        self._patched: set[type] = set()

    def met(self, loader: Any) -> None:
        """A pass over a loader begins."""
        recorder = self.recorder
        if recorder.pen is None or recorder.annotations.gives_epochs:
            return
        if loader._dataset_kind != dataloader._DatasetKind.Map:
            return
        sampler, division = division_of(loader._index_sampler, len(loader.dataset))
        if isinstance(sampler, DistributedSampler) and type(sampler).__iter__ is DistributedSampler.__iter__:
            return  # Nothing lies around it.
        if division is None and not self._note_own(sampler, len(loader.dataset)) \
                and not isinstance(sampler, DistributedSampler):
            return
        self._divided[sampler] = division
        if type(sampler) not in self._patched:
            self._patched.add(type(sampler))
            self.recorder.patches.wrap(type(sampler), "__iter__", self._make_iter)

    def _note_own(self, sampler: Any, size: int) -> bool:
        """Whether the order of a sampler that nothing divides follows from an epoch."""
        try:
            if sampler not in self._own:
                names = names_of_epoch(type(sampler))
                if not names:
                    return False
                self._own[sampler] = OwnOrders(names, size)
            return True
        except TypeError:  # Not every object is a key.
            return False

    def is_first(self) -> bool:
        """A DistributedSampler is asked. Returns: whether it begins a pass that nothing has written."""
        if self.draws is None:
            return True
        first, self.draws.noted = not self.draws.noted, True
        return first

    def _make_iter(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(sampler: Any) -> Any:
            if self.draws is not None or sampler not in self._divided:
                return real(sampler)
            draws = _Draws(self, self._divided[sampler] is not None)
            with draws:
                iterator: Any = real(sampler)
            watched: Any = self.recorder.quietly(SEAM, lambda: self._watch(sampler, iterator, draws))
            return iterator if watched is None else watched
        return __iter__

    def _watch(self, sampler: Any, iterator: Any, draws: _Draws) -> Any:
        found = self._divided[sampler]
        if found is None and sampler in self._own:
            return self._watch_own(sampler, iterator, draws)
        if found is None:  # A DistributedSampler inside knows the order.
            return _Watched(iterator, draws, None) if isinstance(iterator, GeneratorType) else None
        division: Division = found

        def drawn(order: list[Any]) -> None:
            self.recorder.quietly(SEAM, lambda: self._write(sampler, division, order))

        if isinstance(iterator, _LISTS):
            drawn(list(copy.copy(iterator)))
            return None
        return _Watched(iterator, draws, drawn) if isinstance(iterator, GeneratorType) else None

    def _watch_own(self, sampler: Any, iterator: Any, draws: _Draws) -> Any:
        own, kind = self._own[sampler], type(sampler).__name__

        def write(split: str, order: list[int]) -> None:
            if self.recorder.pen is not None:
                # Only its own passes are compared: which part of the set is its share, it alone knows.
                self.recorder.pen.epoch(split, kind, 0, torch.tensor(order), own.size, 1, len(order),
                                        own.shuffles(sampler, order), False, False)

        one = OwnPass(write)

        def drawn(order: list[Any]) -> None:
            self.recorder.quietly(SEAM, lambda: one.is_drawn(order))

        generates = isinstance(iterator, GeneratorType)
        if draws.noted or not generates and not isinstance(iterator, _LISTS):
            return None  # It has asked a DistributedSampler, or what it draws is not known.
        self.recorder.batches.pass_began(one.is_of, 1)  # A DistributedSampler that a generator asks later begins its own.
        if generates:
            return _Collected(iterator, draws, drawn, MOST_TIMES * own.size)
        drawn(list(copy.copy(iterator)))
        return None

    def _write(self, sampler: Any, division: Division, drawn: list[Any]) -> None:
        pen = self.recorder.pen
        if pen is None or len(drawn) != len(sampler):
            return
        order = [int(one) for draw in drawn for one in (draw if isinstance(draw, list) else [draw])]
        whole = sorted(order) == list(range(division.size))
        by_epoch = callable(getattr(sampler, "set_epoch", None)) and order != sorted(order)
        shuffles = by_epoch or isinstance(sampler, RandomSampler)
        # Only shares of one whole order have to come from equal orders.
        kind, n_replicas = ("random", division.n_replicas) if whole else (type(sampler).__name__, 1)

        def write(split: str) -> None:
            if self.recorder.pen is not None:
                self.recorder.pen.epoch(split, kind, 0, torch.tensor(order), division.size, n_replicas,
                                        division.per_rank, shuffles, division.drop_last,
                                        not division.drop_last)

        self.recorder.batches.pass_began(write, division.n_replicas)


def install(recorder: Recorder) -> None:
    samplers = recorder.samplers = Samplers(recorder)

    def make_init(real: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            recorder.quietly(SEAM, lambda: samplers.met(loader))
            with recorder.batches.asked_by(self):
                real(self, loader, *args, **kwargs)
        return __init__

    def make_reset(real: Callable[..., Any]) -> Callable[..., Any]:
        def _reset(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.quietly(SEAM, lambda: samplers.met(loader))
            return real(self, loader, *args, **kwargs)
        return _reset

    recorder.patches.wrap(dataloader._BaseDataLoaderIter, "__init__", make_init)
    recorder.patches.wrap(dataloader._MultiProcessingDataLoaderIter, "_reset", make_reset)
