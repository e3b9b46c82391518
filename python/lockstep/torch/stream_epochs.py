"""Streams whose epoch a program sets where it does not arrive: in workers that live on, which have a copy of the data set.

    loader = DataLoader(stream, num_workers=2, persistent_workers=True)
    for epoch in range(10):
        stream.set_epoch(epoch)                # the workers' copies stay in their first epoch
        for batch in loader: ...

A stream has no indices: what shows it is its code, an attribute that has moved on here, and the values of each pass's first batch.
"""
from __future__ import annotations

import sys
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import dataloader

from lockstep.torch.data_read import plain_tensors
from lockstep.torch.data_sets import TRAIN
from lockstep.torch.own_orders import PLAIN, attributes_read, names_of_epoch
from lockstep.torch.sites import is_installed

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder

MOST_VALUES = 1 << 12  # Of each tensor of a first batch.
_SHUFFLES = frozenset(("Generator", "Random", "RandomState", "default_rng", "manual_seed", "permutation", "randperm", "sample", "seed", "shuffle"))


def epochs_of(iterator: Any) -> StreamEpochs | None:
    """Those of a stream of the program's own that shuffles by its epoch, in workers that live on."""
    kind = type(iterator._dataset)
    if iterator._dataset_kind != dataloader._DatasetKind.Iterable or not getattr(iterator, "_persistent_workers", False):
        return None
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is not None and is_installed(file) or not getattr(iterator._dataset, "shuffle", True):
        return None
    names = names_of_epoch(kind)
    return StreamEpochs(names) if names and attributes_read(kind) & _SHUFFLES else None


class StreamEpochs:
    """Pass after pass over one stream."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._epoch: tuple[Any, ...] = ()
        self._first: list[torch.Tensor] = []  # The values of the last pass's first batch.
        self._order = 0  # Changes where a pass begins with another batch.
        self._n_samples = 0  # That this rank has read in this pass.

    def begins(self, data_set: Any, batch: Any) -> StreamPass:
        """A pass has given its first batch."""
        first = [one.reshape(-1)[:MOST_VALUES].clone() for one in plain_tensors(batch, False)]
        epoch = self._epoch_of(data_set)
        self._order += not _are_equal(first, self._first)
        begun = StreamPass(_key_of(epoch), self._order, self._n_samples, epoch != self._epoch)
        self._first, self._epoch, self._n_samples = first, epoch, 0
        return begun

    def has_read(self, batch: Any) -> None:
        tensors = plain_tensors(batch, False)
        self._n_samples += len(tensors[0]) if tensors and tensors[0].dim() else 0

    def _epoch_of(self, data_set: Any) -> tuple[Any, ...]:
        """As attributes have it that this process has alone: a tensor may be in memory that workers share."""
        held = [vars(data_set).get(name) for name in sorted(self._names)]
        return tuple(value for value in held if isinstance(value, PLAIN))


class StreamPass(NamedTuple):
    """One pass, as an epoch of it is written."""

    key: int
    order: int
    size: int  # Of the pass before: of this one it is not known yet.
    moved: bool  # The epoch is another one than that of the pass before. Otherwise the order may be the same.

    def write(self, recorder: Recorder, split: str) -> None:
        if split.partition("/")[0] == TRAIN and recorder.pen is not None:
            recorder.pen.epoch(split, "stream", self.key, torch.tensor([self.order]), self.size, 1, self.size, self.moved, False, False)


def _key_of(epoch: tuple[Any, ...]) -> int:
    """The epoch's own number, if it has one: a program that is started again goes on with it."""
    [value] = epoch if len(epoch) == 1 else [None]
    return value & (1 << 64) - 1 if isinstance(value, int) else zlib.crc32(repr(epoch).encode())


def _are_equal(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) > 0 and len(left) == len(right) and all(map(torch.equal, left, right))
