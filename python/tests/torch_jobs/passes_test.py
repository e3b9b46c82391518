"""What counts as an epoch: each pass over a sampler once, by the training and the data set it belongs to."""
from __future__ import annotations

import json
from pathlib import Path

import lockstep
import pytest
from forked import run_job

HEAD = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import (BatchSampler, DataLoader, DistributedSampler, RandomSampler, Subset,
                              TensorDataset)

dist.init_process_group("gloo")
torch.manual_seed(7)

def batch_of(loader):
    return next(iter(loader))

def data_of(n):
    return TensorDataset(torch.linspace(0, 1, n)[:, None])

def train(model, loader, sampler, epochs, sets=True):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        if sets:
            sampler.set_epoch(epoch)
        for x, in loader:
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
'''
NESTED = HEAD + '''
class Plain(DistributedSampler):
    def __iter__(self):
        for index in super().__iter__():
            yield index

class Halves(DistributedSampler):
    """Asks its base class once for each half of the epoch."""
    def __iter__(self):
        half = self.num_samples // 2
        yield from list(super().__iter__())[:half]
        yield from list(super().__iter__())[half:]

class Listed(DistributedSampler):
    def __iter__(self):
        first, again = list(super().__iter__()), list(super().__iter__())
        return iter(first[:8] + again[8:])

class Grand(Halves):
    def __iter__(self):
        return super().__iter__()

class Seedable(RandomSampler):
    """As Accelerate's: seeds the generator of its base class by epoch."""
    def __init__(self, data):
        super().__init__(data, generator=torch.Generator())
        self.epoch = 0
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __iter__(self):
        self.generator.manual_seed(self.epoch)
        yield from super().__iter__()

class Share(BatchSampler):
    def __init__(self, batches):
        self.batch_sampler, self.num_processes = batches, dist.get_world_size()
        self.batch_size, self.drop_last = batches.batch_size, False
    def __len__(self):
        return len(self.batch_sampler) // self.num_processes
    def __iter__(self):
        for index, batch in enumerate(self.batch_sampler):
            if index % self.num_processes == dist.get_rank():
                yield batch

data = data_of(48)
# The base class is met alone before.
shared = RandomSampler(data, generator=torch.Generator().manual_seed(7))
batch_of(DataLoader(data, batch_sampler=Share(BatchSampler(shared, 6, False))))
sampler = {sampler}
if isinstance(sampler, DistributedSampler):
    loader = DataLoader(data, batch_size=6, sampler=sampler, num_workers={workers})
else:
    loader = DataLoader(data, batch_sampler=Share(BatchSampler(sampler, 6, False)), num_workers={workers})
train(DistributedDataParallel(nn.Linear(1, 1)), loader, sampler, 3, {sets})
'''
SAMPLERS = ("Plain(data)", "Halves(data)", "Listed(data)", "Grand(data)", "Seedable(data)")


def run(job: str, scratch: Path) -> tuple[lockstep.Report, list[list[dict[str, object]]]]:
    """The report, and what each rank recorded of passes."""
    script = scratch / "job.py"
    script.write_text(job)
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0], ran.output
    assert ran.troubles == []
    lines = [[json.loads(line) for line in path.read_text().splitlines()[1:]]
             for path in sorted((scratch / "trace").glob("*.jsonl"))]
    passes = [[event for event in rank if event["kind"] == "epoch"] for rank in lines]
    return lockstep.check(scratch / "trace"), passes


def epochs_of(passes: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(event["split"], event["at"][5]) for event in passes]  # type: ignore[index]


def filled(job: str, **values: object) -> str:
    for key, value in values.items():
        job = job.replace("{" + key + "}", str(value))
    return job


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sampler_that_asks_its_base_class_makes_one_pass(sampler: str, workers: int, tmp_path: Path) -> None:
    report, passes = run(filled(NESTED, sampler=sampler, workers=workers, sets=True), tmp_path)
    assert report.ok, str(report)
    assert report.law("epoch-reshuffled").verdict == "holds"
    for rank in passes:
        assert epochs_of(rank) == [("train", 0), ("train", 1), ("train", 2)]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sampler_that_asks_its_base_class_and_is_never_set_is_named(sampler: str, tmp_path: Path) -> None:
    report, _ = run(filled(NESTED, sampler=sampler, workers=0, sets=False), tmp_path)
    [finding] = report.findings
    assert (finding.law, finding.cause, finding.epoch) == ("epoch-reshuffled", "no-set-epoch", 1)


TWO_SETS = HEAD + '''
first, second = data_of(48), data_of(32)
samplers = [DistributedSampler(first), DistributedSampler(second)]
loaders = [DataLoader(data, batch_size=4, sampler=sampler)
           for data, sampler in zip((first, second), samplers)]
model = DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(3):
    for sampler in samplers:
        if {sets} or sampler is not samplers[0]:
            sampler.set_epoch(epoch)
    for batch in ({batches}):
        optimizer.zero_grad()
        sum(model(x).pow(2).mean() for x in batch).backward()
        optimizer.step()
'''
IN_TURN = "[x] for loader in loaders for x, in loader"
SIDE_BY_SIDE = "[x, y] for (x,), (y,) in zip(*loaders)"


@pytest.mark.parametrize("batches", [IN_TURN, SIDE_BY_SIDE])
def test_passes_over_two_data_sets_are_not_epochs_of_one(batches: str, tmp_path: Path) -> None:
    report, _ = run(filled(TWO_SETS, batches=batches, sets=True), tmp_path)
    assert report.ok, str(report)


def test_the_first_of_two_data_sets_in_turn_counts_epochs(tmp_path: Path) -> None:
    report, passes = run(filled(TWO_SETS, batches=IN_TURN, sets=False), tmp_path)
    assert epochs_of(passes[0]) == [(split, epoch) for epoch in range(3) for split in ("train", "train/2")]
    [finding] = report.findings
    assert (finding.law, finding.cause, finding.epoch) == ("epoch-reshuffled", "no-set-epoch", 1)


LOOKED_THROUGH = HEAD + '''
data = data_of(48)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=6, sampler=sampler)
mean = torch.cat([x for x, in loader]).mean()
assert torch.equal(batch_of(loader)[0], batch_of(loader)[0])
model = DistributedDataParallel(nn.Linear(1, 1))
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, in loader:
        assert len(list(sampler)) == 24
        model(x).pow(2).mean().backward()
'''


def test_a_loader_that_is_looked_through_makes_no_epoch(tmp_path: Path) -> None:
    report, passes = run(LOOKED_THROUGH, tmp_path)
    assert report.ok, str(report)
    assert [epochs_of(rank) for rank in passes] == [[("train", 0), ("train", 1)]] * 2


TRAININGS = HEAD + '''
data = data_of(48)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=6, sampler=sampler)
model = DistributedDataParallel(nn.Linear(1, 1))
train(model, loader, sampler, 1)
{then}
for epoch in range({first}, {first} + 2):
    sampler.set_epoch(epoch if {sets} else 0)
    for x, in loader:
        {uses}.pow(2).mean().backward()
'''
# Beside the first, wrapped late; the same module wrapped anew; its parts in another module.
ONE_TRAINING = {
    "beside": ("other = DistributedDataParallel(nn.Linear(1, 1))", "other(model(x))"),
    "in turn": ("other = DistributedDataParallel(nn.Linear(1, 1))", "(other(x) + model(x))"),
    "wrapped anew": ("model = DistributedDataParallel(model.module)", "model(x)"),
    "grown": ("model = DistributedDataParallel(nn.Sequential(model.module, nn.Linear(1, 1)))", "model(x)")}
ANOTHER = ("other = DistributedDataParallel(nn.Linear(1, 1))", "other(x)")


@pytest.mark.parametrize("name", ONE_TRAINING)
def test_what_is_wrapped_late_goes_on_with_the_epochs_of_its_training(name: str, tmp_path: Path) -> None:
    then, uses = ONE_TRAINING[name]
    report, passes = run(filled(TRAININGS, then=then, uses=uses, first=1, sets=True), tmp_path)
    assert report.ok, str(report)
    assert epochs_of(passes[0])[-1] == ("train", 2 if name != "in turn" else 1)


# Where the one that was wrapped late is the first to be trained on, it looks like another training.
@pytest.mark.parametrize("name", ["beside", "wrapped anew", "grown"])
def test_an_epoch_that_repeats_one_from_before_the_late_wrapping_is_named(name: str, tmp_path: Path) -> None:
    then, uses = ONE_TRAINING[name]
    report, _ = run(filled(TRAININGS, then=then, uses=uses, first=1, sets=False), tmp_path)
    [finding] = report.findings
    assert (finding.law, finding.cause, finding.epoch) == ("epoch-reshuffled", "no-set-epoch", 1)


def test_another_model_begins_again_with_its_first_epoch(tmp_path: Path) -> None:
    then, uses = ANOTHER
    report, passes = run(filled(TRAININGS, then=then, uses=uses, first=0, sets=True), tmp_path)
    assert report.ok, str(report)
    assert epochs_of(passes[1]) == [("train", 0), ("train", 0), ("train", 1)]


HELD_OUT = HEAD + '''
whole = data_of(64)
parts = {parts}
loaders = [DataLoader(data, batch_size=4, sampler=DistributedSampler(data)) for data in parts]
model = DistributedDataParallel(nn.Linear(1, 1))
for epoch in range(2):
    model.train()
    train(model, loaders[0], loaders[0].sampler, 1, False)
    loaders[0].sampler.set_epoch(epoch + 1)
    model.eval()
    with torch.no_grad():
        for x, in loaders[1]:
            model(x)
'''


@pytest.mark.parametrize("parts", [
    "[data_of(48), data_of(16)]", "[Subset(whole, range(48)), Subset(whole, range(48, 64))]",
    "[whole, Subset(data_of(64), range(16))]"])
def test_samples_of_two_sets_are_different_ones(parts: str, tmp_path: Path) -> None:
    report, _ = run(filled(HELD_OUT, parts=parts), tmp_path)
    assert report.ok, str(report)
    assert report.law("samples-covered").verdict == "holds"


def test_parts_of_one_set_that_overlap_leak(tmp_path: Path) -> None:
    parts = "[Subset(whole, range(48)), Subset(whole, range(40, 56))]"
    report, _ = run(filled(HELD_OUT, parts=parts), tmp_path)
    [finding] = report.findings
    assert (finding.law, finding.cause) == ("samples-covered", "split-leak"), str(report)
