"""What the ids of samples cannot say: the values of batches that nothing divides among the ranks."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import Subset, dataloader
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import RandomSampler, SequentialSampler, SubsetRandomSampler

from lockstep.torch.recorder import DTYPES
from lockstep.torch.samplers import MOST_LAYERS, below

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BATCHES = 8  # Whose values are looked at.
MOST_WORKERS = 32  # Of a stream, of each of which two are.
MOST_TENSORS = 8
MOST_ELEMENTS = 1 << 18  # Of each tensor.


class Handed(NamedTuple):
    """A batch that a loader has handed out."""

    ids: list[int] | None  # None: the data set is a stream.
    source: str  # As in the events; empty where something divides the data among the ranks.
    values: Any  # The batch; None where its values do not matter.


def source_of(iterator: Any) -> str:
    """What a loader's iterator draws from, if nothing divides that among the ranks."""
    if iterator._dataset_kind != dataloader._DatasetKind.Map:
        return "stream"
    layers = _layers(iterator._index_sampler)
    return "" if any(map(_divides, layers)) else _kind_of(layers[-1])


def most_batches(iterator: Any) -> int:
    """Of how many batches the values are looked at: of a stream that workers read, of two of each, since these may be
    the same."""
    if iterator._dataset_kind == dataloader._DatasetKind.Map:
        return MOST_BATCHES
    workers: int = min(iterator._num_workers, MOST_WORKERS)
    return max(MOST_BATCHES, 2 * workers)


def _layers(sampler: Any) -> list[Any]:
    """A sampler and those that it takes its draws from."""
    layers = [sampler]
    while len(layers) <= MOST_LAYERS and (inner := below(layers[-1])) is not None:
        layers.append(inner)
    return layers


def _divides(sampler: Any) -> bool:
    n = getattr(sampler, "num_processes", None) or getattr(sampler, "num_replicas", None)
    return isinstance(sampler, DistributedSampler) or isinstance(n, int)


def _kind_of(sampler: Any) -> str:
    if type(sampler) is SequentialSampler:
        return "sequential"
    plain = type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == len(sampler.data_source)
    return "random" if plain else type(sampler).__name__


def pass_source(iterator: Any, source: str) -> str:
    """What a pass that nothing divides draws from, each sample once: a set, rows of one, or what a sampler of the
    program's own makes of it. Empty where it may draw a sample again, or some of them at random."""
    if not source or source == "stream":
        return ""
    kind = type(_layers(iterator._index_sampler)[-1])
    if source in ("random", "sequential"):
        return "subset" if isinstance(iterator._dataset, Subset) else source
    if kind is SubsetRandomSampler:
        return "subset"
    return "" if kind.__module__.startswith("torch.") else source


def consumed_whole(batch: Any, inputs: Any) -> bool:
    """Whether a forward takes a tensor of the batch as it is, or one of its shape, or one that begins or ends with it: a
    program that divides each batch among the ranks gives it a part."""
    taken = plain_tensors(inputs, True)
    return any(_is_in(own, one) for own in plain_tensors(batch, True) for one in taken)


def _is_in(own: torch.Tensor, taken: torch.Tensor) -> bool:
    if own.shape == taken.shape:
        return True
    if own.dim() == 0 or own.shape[1:] != taken.shape[1:] or len(own) > len(taken) or own.dtype != taken.dtype:
        return False
    own = own.to(taken.device)
    return any(bool(torch.equal(own, end)) for end in (taken[:len(own)], taken[len(taken) - len(own):]))


def values_of(batch: Any, inputs: Any) -> list[torch.Tensor]:
    """The first values of a batch; where the forward does not take it as it is, those of its inputs, too."""
    values = plain_tensors(batch, False)
    if values and not consumed_whole(batch, inputs):
        values += plain_tensors(inputs, True)
    return [one.detach().reshape(-1)[:MOST_ELEMENTS].cpu() for one in values]


def first_tensor(inputs: Any) -> torch.Tensor | None:
    """Of a forward."""
    found = plain_tensors(inputs, True)
    return found[0] if found else None


def plain_tensors(value: Any, anywhere: bool) -> list[torch.Tensor]:
    """The first plain tensors in host memory, or anywhere."""
    found: list[torch.Tensor] = []
    _collect(value, lambda one: found.append(one) if anywhere or one.device.type == "cpu" else None, 4)
    return found[:MOST_TENSORS]


def _collect(value: Any, take: Callable[[torch.Tensor], None], depth: int) -> None:
    if isinstance(value, torch.Tensor):
        if type(value) is torch.Tensor and value.dtype in DTYPES and value.layout == torch.strided \
                and value.numel() > 0:
            take(value)
    elif depth > 0 and isinstance(value, Mapping):
        for one in value.values():
            _collect(one, take, depth - 1)
    elif depth > 0 and isinstance(value, (list, tuple)):
        for one in value:
            _collect(one, take, depth - 1)
