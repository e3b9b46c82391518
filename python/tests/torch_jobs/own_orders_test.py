"""Samplers of a program's own: an epoch that is never moved on is known by their code, their attributes and their order."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lockstep
import pytest
import torch
from forked import run_job

from lockstep.torch.own_orders import OwnOrders, indices_of, names_of_epoch
from lockstep.torch.samplers import Samplers, _Collected, _Draws


class Epochs:
    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Plain(Epochs):
    def __iter__(self) -> Any:
        return iter(torch.randperm(4 + int(self.epoch)).tolist())


class ByHelpers(Epochs):
    @property
    def key(self) -> int:
        return [self.epoch for _ in range(1)][0]

    def batches(self) -> list[int]:
        return [self.key]

    def __iter__(self) -> Any:
        yield from self.batches()


class Reseeded:
    def __init__(self) -> None:
        self.generator = torch.Generator()

    def set_epoch(self, epoch: int) -> None:
        self.generator.manual_seed(int(epoch))

    def __iter__(self) -> Any:
        return iter(torch.randperm(4, generator=self.generator).tolist())


class Unmoved(Epochs):
    """Has the method, as some loaders ask for it; its order is one."""

    def __iter__(self) -> Any:
        return iter([int(one) for one in (2, 1)])


class Without:
    epoch = 0

    def __iter__(self) -> Any:
        return iter([self.epoch])


@pytest.mark.parametrize(("kind", "names"), [
    (Plain, {"epoch"}), (ByHelpers, {"epoch"}), (Reseeded, {"generator"}), (Unmoved, set()), (Without, set()), (list, set())])
def test_an_order_follows_from_an_epoch_where_it_reads_what_set_epoch_writes(kind: type, names: set[str]) -> None:
    assert names_of_epoch(kind) == names


def answers(*passes: tuple[int, list[int]], **options: Any) -> list[bool]:
    sampler, own = Plain(), OwnOrders(frozenset({"epoch"}), 4)
    vars(sampler).update(options)
    found = []
    for epoch, order in passes:
        sampler.set_epoch(epoch)
        found.append(own.shuffles(sampler, order))
    return found


def test_an_order_that_stays_with_its_epoch_was_to_move() -> None:
    assert answers((0, [2, 1]), (0, [2, 1])) == [True, True]
    assert answers((0, [2, 1]), (1, [1, 2, 0])) == [True, True]


def test_an_order_that_stays_while_the_epoch_moves_is_meant_to() -> None:
    assert answers((0, [2, 1]), (1, [2, 1])) == [True, False]
    assert answers((0, [1, 2]), (0, [1, 2])) == [False, False], "one that is sorted is, too"
    assert answers((0, [2, 1]), (0, [2, 1]), shuffle=False) == [False, False]
    assert answers((0, [2, 1]), (0, [2, 1]), shuffle=True) == [True, True]


def test_an_epoch_that_workers_share_is_compared_by_its_value() -> None:
    sampler, own = Plain(), OwnOrders(frozenset({"epoch"}), 4)
    vars(sampler)["epoch"] = shared = torch.zeros((), dtype=torch.long)
    assert own.shuffles(sampler, [2, 1])
    shared.fill_(1)
    assert not own.shuffles(sampler, [2, 1])


def test_draws_are_indices_or_batches_of_them() -> None:
    assert indices_of([3, [1, 2], (0,), torch.tensor(5)]) == [3, 1, 2, 0, 5]
    assert indices_of([(1, "small")]) is None and indices_of([object()]) is None


def test_a_generator_without_an_end_is_not_kept() -> None:
    def endless() -> Any:
        while True:
            yield [1, 2, 3]

    samplers = Samplers.__new__(Samplers)
    samplers.draws = None
    given: list[Any] = []
    collected = _Collected(endless(), _Draws(samplers, False), given.append, 8)
    for _ in range(5):
        next(collected)
    assert collected._given == [] and given == []


JOB = '''
import random
from dataclasses import dataclass, field
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
data = TensorDataset(torch.linspace(0, 1, 48)[:, None])

class Epochs:
    def __init__(self, shuffle=True):
        self.epoch, self.shuffle = 0, shuffle
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __len__(self):
        return 24
    def order(self):
        order = list(range(48))
        random.Random(5 + self.epoch if self.shuffle else 5).shuffle(order)
        return order[rank::world]
    def batches(self):
        order = self.order()
        return [order[i:i + 6] for i in range(0, 24, 6)]

class Listed(Epochs):
    def __iter__(self):
        return iter(self.order())

class Batches(Epochs):
    def __len__(self):
        return 4
    def __iter__(self):
        return iter(self.batches())

class Yields(Batches):
    def __iter__(self):
        for batch in self.batches():
            yield batch

class Derived(DistributedSampler):
    """Asks its base class for nothing."""
    def __len__(self):
        return 4
    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        order = torch.randperm(48, generator=generator).tolist()[self.rank::self.num_replicas]
        yield from (order[i:i + 6] for i in range(0, 24, 6))

class Asks(DistributedSampler):
    """Its base class knows the order."""
    def __len__(self):
        return 4
    def __iter__(self):
        order = list(super().__iter__()) + [self.epoch][:0]
        for i in range(0, 24, 6):
            yield order[i:i + 6]

class AsksFirst(Asks):
    def __iter__(self):
        return iter(list(super().__iter__()) + [self.epoch][:0])

class AsksTwice(Asks):
    def __iter__(self):
        yield from list(super().__iter__())[:2 + 0 * self.epoch]
        yield from list(super().__iter__())[2:]

class Moves(Batches):
    def __iter__(self):
        self.epoch += 1
        return iter(self.batches())

@dataclass
class NoKey(Batches):
    epoch: int = 0
    shuffle: bool = True
    def __iter__(self):
        return iter(self.batches())

class OwnEpoch(Batches):
    """Goes by something else than what is set."""
    def __iter__(self):
        epoch, self.epoch = self.epoch, 0
        try:
            return iter(self.batches())
        finally:
            self.epoch = epoch

def loader_of(sampler):
    if isinstance(sampler, Listed):
        return DataLoader(data, batch_size=6, sampler=sampler)
    return DataLoader(data, batch_sampler=sampler, num_workers={workers})

sampler = {sampler}
loader, held_out = loader_of(sampler), loader_of(Yields())
model = DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(3):
    if {sets}:
        sampler.set_epoch(epoch)
    for x, in loader:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    with torch.no_grad():
        print(sum(model(x).sum() for x, in held_out))
dist.destroy_process_group()
'''


def run(sampler: str, sets: bool, scratch: Path, workers: int = 0) -> tuple[lockstep.Report, list[tuple[str, int, int]]]:
    """The report, and the epochs of rank 0: split, number and among how many they are known to be divided."""
    script = scratch / "job.py"
    job = JOB.replace("{sampler}", sampler).replace("{sets}", str(sets)).replace("{workers}", str(workers))
    script.write_text(job)
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0], ran.output
    assert ran.troubles == []
    lines = [json.loads(line) for line in min((scratch / "trace").glob("*.jsonl")).read_text().splitlines()[1:]]
    return lockstep.check(scratch / "trace"), [(one["split"], one["at"][5], one["n_replicas"]) for one in lines if one["kind"] == "epoch"]


OWN = ("Listed()", "Batches()", "Yields()", "Derived(data)")
ASKING = ("Asks(data)", "AsksFirst(data)", "AsksTwice(data)")


def epochs_of(n_replicas: int) -> list[tuple[str, int, int]]:
    return [("train", epoch, n_replicas) for epoch in range(3)]


@pytest.mark.parametrize("sampler", OWN + ASKING)
def test_an_own_sampler_whose_epoch_is_never_set_is_named(sampler: str, tmp_path: Path) -> None:
    report, _ = run(sampler, False, tmp_path)
    [finding] = report.findings
    assert (finding.law, finding.cause, finding.epoch, finding.ranks) == ("epoch-reshuffled", "no-set-epoch", 1, (0, 1))


@pytest.mark.parametrize("sampler", OWN)
def test_an_own_sampler_whose_epoch_is_set_makes_one_epoch_of_a_pass(sampler: str, tmp_path: Path) -> None:
    report, epochs = run(sampler, True, tmp_path)
    assert report.ok, str(report)
    assert epochs == epochs_of(1)


@pytest.mark.parametrize("sampler", ASKING)
def test_a_sampler_that_asks_one_of_pytorch_has_its_order(sampler: str, tmp_path: Path) -> None:
    report, epochs = run(sampler, True, tmp_path)
    assert report.ok, str(report)
    assert epochs == epochs_of(2)


def test_batches_that_workers_ask_for_ahead_are_of_their_pass(tmp_path: Path) -> None:
    report, epochs = run("Yields()", False, tmp_path, workers=1)
    assert [finding.cause for finding in report.findings] == ["no-set-epoch"]
    assert epochs == epochs_of(1)


@pytest.mark.parametrize(("sampler", "sets"), [
    ("Batches(shuffle=False)", False), ("Moves()", False), ("NoKey()", False), ("OwnEpoch()", True)])
def test_an_order_that_is_to_stay_or_moves_by_itself_is_no_mistake(sampler: str, sets: bool, tmp_path: Path) -> None:
    report, _ = run(sampler, sets, tmp_path)
    assert report.ok, str(report)
