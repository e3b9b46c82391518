"""What the ids of samples cannot say: the values of batches that nothing divides among the ranks."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import dataloader
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import RandomSampler, SequentialSampler

from lockstep.torch.recorder import DTYPES
from lockstep.torch.samplers import MOST_LAYERS, below

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BATCHES = 8  # Whose values are looked at.
MOST_TENSORS = 8
MOST_ELEMENTS = 1 << 18  # Of each tensor.


class Handed(NamedTuple):
    """A batch that a loader has handed out."""

    ids: list[int] | None  # None: the data set is a stream.
    source: str  # As in the events; empty where something divides the data among the ranks.
    tensors: list[torch.Tensor]


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
