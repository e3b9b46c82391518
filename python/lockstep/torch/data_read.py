"""What the ids of samples cannot say: which data set they count, which rows of it a subset has, and the
values of batches that nothing divides among the ranks.
"""
from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import Subset, dataloader
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import RandomSampler, SequentialSampler

from lockstep.torch.recorder import DTYPES
from lockstep.torch.samplers import MOST_LAYERS, below

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BATCHES = 8  # Whose values are looked at.
MOST_TENSORS = 8
MOST_ELEMENTS = 1 << 18  # Of each tensor.
IDS_PER_SET = 1 << 40  # Those of the n-th data set of a split begin at n times this.
SETS_PER_SPLIT = 1 << 10


class Handed(NamedTuple):
    """A batch that a loader has handed out."""

    dataset: Any
    ids: list[int] | None  # None: the data set is a stream.
    source: str  # As in the events; empty where something divides the data among the ranks.
    tensors: list[torch.Tensor]


class DataSets:
    """Data sets by number. Samples of two of them are different ones, although each counts its own from
    0: those of the n-th one that a split meets have ids from n * IDS_PER_SET on, and those of other
    splits than training from SETS_PER_SPLIT * IDS_PER_SET. Each set that is evaluated is a split of its
    own: "eval", "eval/2", ..."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._met: dict[str, int] = {}
        self._rows: dict[int, torch.Tensor | None] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}

    def first_id(self, split: str, dataset: Any) -> int:
        base = 0 if split == "train" else SETS_PER_SPLIT
        return (base + self._number(split, dataset)) * IDS_PER_SET

    def name(self, split: str, dataset: Any) -> str:
        number = 0 if split == "train" else self._number(split, dataset)
        return f"{split}/{number + 1}" if number else split

    def _number(self, split: str, dataset: Any) -> int:
        if not self._is_known(dataset):
            return 0
        key = (split, id(dataset))
        if key not in self._numbers:
            self._numbers[key] = self._met.get(split, 0) % SETS_PER_SPLIT
            self._met[split] = self._numbers[key] + 1
        return self._numbers[key]

    def rows(self, dataset: Any) -> torch.Tensor | None:
        """Which rows of the whole set a subset has, in order; None where it is no subset."""
        if not isinstance(dataset, Subset) or not self._is_known(dataset):
            return None
        if id(dataset) not in self._rows:
            self._rows[id(dataset)] = _rows_of(dataset)
        return self._rows[id(dataset)]

    def _is_known(self, dataset: Any) -> bool:
        """Whether it can be told from others for as long as it lives; plain lists cannot."""
        if id(dataset) in self._alive:
            return True
        number = id(dataset)
        try:
            self._alive[number] = weakref.ref(dataset, lambda _: self._forget(number))
        except TypeError:
            return False
        return True

    def _forget(self, number: int) -> None:
        self._alive.pop(number, None)
        self._rows.pop(number, None)
        for key in [key for key in self._numbers if key[1] == number]:
            del self._numbers[key]


def _rows_of(dataset: Any) -> torch.Tensor | None:
    rows: torch.Tensor | None = None
    for _ in range(MOST_LAYERS):
        if not isinstance(dataset, Subset):
            break
        own = torch.as_tensor(dataset.indices, dtype=torch.int64)
        rows = own if rows is None else own[rows]
        dataset = dataset.dataset
    return rows


def source_of(iterator: Any) -> str:
    """What a loader's iterator draws from, if nothing divides that among the ranks."""
    if iterator._dataset_kind != dataloader._DatasetKind.Map:
        return "stream"
    sampler = iterator._index_sampler
    for _ in range(MOST_LAYERS):
        divided = isinstance(sampler, DistributedSampler) or isinstance(
            getattr(sampler, "num_processes", None) or getattr(sampler, "num_replicas", None), int)
        if divided:
            return ""
        inner = below(sampler)
        if inner is None:
            break
        sampler = inner
    kinds = {RandomSampler: "random", SequentialSampler: "sequential"}
    return kinds.get(type(sampler), type(sampler).__name__)


def tensors_of(batch: Any) -> list[torch.Tensor]:
    """The first values of a batch: of its plain tensors in host memory."""
    found: list[torch.Tensor] = []
    _collect(batch, found.append, 4)
    return [one.detach().reshape(-1)[:MOST_ELEMENTS] for one in found[:MOST_TENSORS]]


def _collect(value: Any, take: Callable[[torch.Tensor], None], depth: int) -> None:
    if isinstance(value, torch.Tensor):
        if type(value) is torch.Tensor and value.device.type == "cpu" and value.dtype in DTYPES \
                and value.layout == torch.strided and value.numel() > 0:
            take(value)
    elif depth > 0 and isinstance(value, Mapping):
        for one in value.values():
            _collect(one, take, depth - 1)
    elif depth > 0 and isinstance(value, (list, tuple)):
        for one in value:
            _collect(one, take, depth - 1)
