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

ROWS = TensorDataset(torch.zeros(12, 2))  # As all of them are equal, values say nothing of who reads what.


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


def test_of_a_large_batch_the_first_values_are_looked_at() -> None:
    many = [torch.full((data_read.MOST_ELEMENTS + 1,), float(i)) for i in range(data_read.MOST_TENSORS + 1)]
    found = data_read.tensors_of(many)
    assert len(found) == data_read.MOST_TENSORS
    assert all(one.numel() == data_read.MOST_ELEMENTS for one in found)
    assert [float(one[-1]) for one in found] == [float(i) for i in range(data_read.MOST_TENSORS)]


def test_looking_makes_no_part_of_a_graph() -> None:
    [found] = data_read.tensors_of(torch.ones(3, requires_grad=True) * 2)
    assert not found.requires_grad
