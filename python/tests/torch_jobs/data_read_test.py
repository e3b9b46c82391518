"""What a loader draws from, and whether a forward takes the batch as it is."""
from __future__ import annotations

from typing import Any

import pytest
import torch
from lockstep.torch.data_read import MOST_BATCHES, consumed_whole, most_batches, pass_source, source_of, values_of
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

DATA = TensorDataset(torch.arange(12.0))


class Rows(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter(range(12))


class Backwards:
    def __iter__(self) -> Any:
        return iter(range(11, -1, -1))

    def __len__(self) -> int:
        return 12


# Loader, the source in events of batches, and in those of passes: each sample once, or nothing is said.
DRAWN = {
    "shuffled": (DataLoader(DATA, shuffle=True), "random", "random"),
    "in order": (DataLoader(DATA), "sequential", "sequential"),
    "rows of a set": (DataLoader(Subset(DATA, [1, 2]), shuffle=True), "random", "subset"),
    "rows by sampler": (DataLoader(DATA, sampler=SubsetRandomSampler([1, 2])), "SubsetRandomSampler", "subset"),
    "with replacement": (DataLoader(DATA, sampler=RandomSampler(DATA, replacement=True)), "RandomSampler", ""),
    "some": (DataLoader(DATA, sampler=RandomSampler(DATA, num_samples=5)), "RandomSampler", ""),
    "weighted": (DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 12, 12)), "WeightedRandomSampler", ""),
    "divided": (DataLoader(DATA, sampler=DistributedSampler(DATA, 2, 0)), "", ""),
    "of one's own": (DataLoader(DATA, sampler=Backwards()), "Backwards", "Backwards"),
    "a stream": (DataLoader(Rows()), "stream", ""),
}


@pytest.mark.parametrize("drawn", DRAWN.values(), ids=DRAWN.keys())
def test_a_loader_is_known_by_what_it_draws_from(drawn: tuple[Any, str, str]) -> None:
    loader, of_batches, of_passes = drawn
    iterator = iter(loader)
    source = source_of(iterator)
    assert (source, pass_source(iterator, source)) == (of_batches, of_passes)


@pytest.mark.parametrize(("loader", "most"), [
    (DataLoader(Rows()), MOST_BATCHES), (DataLoader(Rows(), num_workers=2), MOST_BATCHES),
    (DataLoader(Rows(), num_workers=6), 12), (DataLoader(DATA, num_workers=6), MOST_BATCHES),
], ids=["in the loop", "few workers", "many workers", "no stream"])
def test_two_batches_of_each_worker_of_a_stream_are_looked_at(loader: Any, most: int) -> None:
    assert most_batches(iter(loader)) == most


BATCH = {"x": torch.arange(12.0).reshape(4, 3), "y": torch.arange(4)}


@pytest.mark.parametrize(("inputs", "whole"), [
    (((BATCH["x"],), {}), True),
    (((), {"x": BATCH["x"] + 1}), True),
    (((torch.cat([BATCH["x"], torch.ones(2, 3)]),), {}), True),
    (((torch.cat([torch.ones(2, 3), BATCH["x"]]),), {}), True),
    (((torch.cat([torch.ones(2, 3), BATCH["x"] + 1]),), {}), False),
    (((torch.cat([torch.ones(2, 3), BATCH["x"][:3]]),), {}), False),
    (((BATCH["x"][::2],), {}), False),
    (((BATCH["x"][:, :2],), {}), False),
    (((), {}), False),
    (None, False),
])
def test_a_forward_takes_a_batch_as_it_is_or_a_part_of_it(inputs: Any, whole: bool) -> None:
    assert consumed_whole(BATCH, inputs) is whole


def test_parts_of_one_batch_have_values_of_their_own() -> None:
    def all_of(inputs: Any) -> list[list[float]]:
        return [one.tolist() for one in values_of(BATCH, inputs)]

    whole = all_of(BATCH["x"])
    assert whole == all_of(BATCH["x"] * 2) == [list(range(12)), list(range(4))]
    assert all_of(BATCH["x"][::2]) != all_of(BATCH["x"][1::2])
    assert all_of(BATCH["x"][::2])[:2] == whole


def test_a_batch_without_tensors_has_no_values() -> None:
    assert values_of(["a", "b"], torch.ones(2)) == []
