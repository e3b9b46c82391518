"""What a loader draws from: the values of its batches count only where nothing divides them among the ranks."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lockstep.torch import data_read
from torch.utils.data import (
    BatchSampler, DataLoader, IterableDataset, SequentialSampler, TensorDataset, WeightedRandomSampler)
from torch.utils.data.distributed import DistributedSampler

ROWS = TensorDataset(torch.zeros(12, 2))  # As all of them are equal, values tell nothing of who reads what.


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.zeros(12, 2))


class Sharded:
    """Divides another sampler's batches, as wrappers of frameworks do."""

    def __init__(self, sampler: Any) -> None:
        self.batch_sampler, self.num_processes = sampler, 2

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batch_sampler)

    def __len__(self) -> int:
        return 3


def divided() -> DistributedSampler[Any]:
    return DistributedSampler(ROWS, num_replicas=2, rank=0)


@pytest.mark.parametrize(("loader", "source"), [
    (lambda: DataLoader(ROWS, 2, sampler=divided()), ""),
    (lambda: DataLoader(ROWS, batch_sampler=BatchSampler(divided(), 2, False)), ""),
    (lambda: DataLoader(ROWS, batch_sampler=Sharded(BatchSampler(SequentialSampler(ROWS), 2, False))), ""),
    (lambda: DataLoader(ROWS, 2), "sequential"),
    (lambda: DataLoader(ROWS, 2, shuffle=True), "random"),
    (lambda: DataLoader(ROWS, 2, sampler=WeightedRandomSampler([1.0] * 12, 12)), "WeightedRandomSampler"),
    (lambda: DataLoader(Stream(), 2), "stream"),
])
def test_a_loader_is_known_by_what_divides_it(loader: Any, source: str) -> None:
    assert data_read.source_of(iter(loader())) == source


def test_values_of_all_tensors_of_a_batch_are_read_and_of_nothing_else() -> None:
    x, y, z = torch.ones(2, 3), torch.zeros(4), torch.full((1,), 2.0)
    batch = {"x": x, "pair": [y, ("text", z)], "n": 3, "none": torch.zeros(0), "sparse": x.to_sparse()}
    assert [list(one) for one in data_read.tensors_of(batch)] == [[1.0] * 6, [0.0] * 4, [2.0]]
    [first] = data_read.tensors_of(torch.arange(2 * data_read.MOST_ELEMENTS))
    assert len(first) == data_read.MOST_ELEMENTS
