"""Samplers of any class whose draws are divided among ranks, and the reduction that a static graph puts
off: what is wrong is named, what is right is silent, and neither is changed by being recorded."""
from __future__ import annotations

from pathlib import Path

import lockstep
import pytest
from forked import run_job

DIVIDED = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import (BatchSampler, DataLoader, DistributedSampler, RandomSampler, Sampler,
                              TensorDataset, WeightedRandomSampler)

class ByEpoch(Sampler):
    def __init__(self):
        self.epoch = 0
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __len__(self):
        return 48
    def __iter__(self):
        order = torch.randperm(48, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        return {returned}

class Longest(Sampler):
    def __len__(self):
        return 48
    def __iter__(self):
        return iter(sorted(range(48), key=lambda index: index % 7))

class Share(BatchSampler):
    """Every num_processes-th batch is this rank's."""
    def __init__(self, batches):
        self.batch_sampler, self.num_processes = batches, dist.get_world_size()
        self.batch_size, self.drop_last = batches.batch_size, False
    def __len__(self):
        return len(self.batch_sampler) // self.num_processes
    def __iter__(self):
        for index, batch in enumerate(self.batch_sampler):
            if index % self.num_processes == dist.get_rank():
                yield batch

class Draws:
    def __init__(self, sampler):
        self.source = sampler
    def __len__(self):
        return len(self.source)
    def __getitem__(self, index):
        return self.order[index]

class Wrapped(DistributedSampler):
    def __init__(self, sampler):
        super().__init__(Draws(sampler), shuffle=False)
    def __iter__(self):
        self.dataset.order = list(self.dataset.source)
        return (self.dataset[index] for index in super().__iter__())

dist.init_process_group("gloo")
torch.manual_seed(7 + dist.get_rank())
shared = torch.Generator().manual_seed(7)
data = TensorDataset(torch.arange(48.0)[:, None])
sampler = {sampler}
if {wrapped}:
    loader = DataLoader(data, batch_size=6, sampler=Wrapped(sampler), num_workers={workers})
else:
    loader = DataLoader(data, batch_sampler=Share(BatchSampler(sampler, 6, False)), num_workers={workers})
model = DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for epoch in range(3):
    if {sets} and hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
    for x, in loader:
        print("rank", dist.get_rank(), x.flatten().tolist(), flush=True)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
print("rank", dist.get_rank(), torch.rand(1).item(), flush=True)
'''
PLAIN = {"returned": "iter(order)", "sampler": "ByEpoch()", "wrapped": False, "sets": True, "workers": 0}

BROKEN = {
    "a generator per rank": ({"sampler": "RandomSampler(data)"}, "samples-covered", "sampler-seed-differs", 0),
    "orders per rank": ({"sampler": "RandomSampler(data)"}, "epoch-reshuffled", "sampler-seed-differs", 0),
    "never set": ({"sets": False}, "epoch-reshuffled", "no-set-epoch", 1),
    "never set, a generator": (
        {"sets": False, "returned": "(yield from order)"}, "epoch-reshuffled", "no-set-epoch", 1),
    "never set, wrapped": ({"sets": False, "wrapped": True}, "epoch-reshuffled", "no-set-epoch", 1),
    "never set, workers": ({"sets": False, "workers": 1}, "epoch-reshuffled", "no-set-epoch", 1),
}
HEALTHY = {
    "one generator": {"sampler": "RandomSampler(data, generator=shared)"},
    "set": {},
    "set, a generator": {"returned": "(yield from order)"},
    "set, wrapped": {"wrapped": True},
    "one order by length": {"sampler": "Longest()"},
    "with repeats": {"sampler": "WeightedRandomSampler([1.0] * 48, 48)"},
    "an order that cannot be seen": {"sets": False, "returned": "(index for index in order)"},
}

STATIC = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

class Inside(nn.Module):
    """Runs its backward inside its forward, where DDP does not see it."""
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        model.require_backward_grad_sync = False  # The reduction is armed here instead.
        loss = self.layer(x).pow(2).mean()
        model.reducer.prepare_for_backward([])
        loss.backward()
        if {flushed} and step == 0:
            model.reducer._delay_all_reduce()
        return loss.detach()

dist.init_process_group("gloo")
torch.manual_seed(7 + dist.get_rank())
model = DistributedDataParallel(Inside(), static_graph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    optimizer.zero_grad()
    model.require_backward_grad_sync = True
    model(torch.randn(3, 4))
    optimizer.step()
'''


def report_of(job: str, options: dict[str, object], scratch: Path) -> tuple[lockstep.Report, str]:
    for key, value in options.items():
        job = job.replace("{" + key + "}", str(value))
    script = scratch / "job.py"
    script.write_text(job)
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0], ran.output
    assert ran.troubles == []
    return lockstep.check(scratch / "trace"), ran.output


@pytest.mark.parametrize("name", BROKEN)
def test_draws_that_are_divided_wrongly_are_named(name: str, tmp_path: Path) -> None:
    options, law, cause, epoch = BROKEN[name]
    report, _ = report_of(DIVIDED, PLAIN | options, tmp_path)
    found = {(finding.law, finding.cause, finding.epoch) for finding in report.findings}
    assert (law, cause, epoch) in found, str(report)


@pytest.mark.parametrize("name", HEALTHY)
def test_draws_that_are_divided_well_are_silent(name: str, tmp_path: Path) -> None:
    report, _ = report_of(DIVIDED, PLAIN | HEALTHY[name], tmp_path)
    assert report.ok, str(report)
    known = name not in ("an order that cannot be seen", "with repeats")
    assert (report.law("samples-covered").verdict == "holds") == known


@pytest.mark.parametrize("name", ["one generator", "set, a generator", "set, wrapped", "with repeats"])
def test_what_samplers_draw_is_not_changed(name: str, tmp_path: Path) -> None:
    _, recorded = report_of(DIVIDED, PLAIN | HEALTHY[name], tmp_path)
    plain = run_job(tmp_path / "job.py", 2, None, tmp_path)
    lines = [sorted(line for line in text.splitlines() if line.startswith("rank "))
             for text in (recorded, plain.output)]
    assert lines[0] == lines[1] and len(lines[0]) == 26


def test_a_reduction_that_a_static_graph_puts_off_and_no_rank_makes_is_named(tmp_path: Path) -> None:
    report, _ = report_of(STATIC, {"flushed": False}, tmp_path)
    found = {(finding.law, finding.step, finding.ranks) for finding in report.findings}
    assert ("reduced-once", 0, (0, 1)) in found, str(report)


def test_a_reduction_after_the_backward_counts(tmp_path: Path) -> None:
    report, _ = report_of(STATIC, {"flushed": True}, tmp_path)
    assert report.ok, str(report)
    assert report.law("gradient-mean").verdict == "holds", report.law("gradient-mean")
