"""Programs without a wrapper, and without a loop that is recognised: what a sampler divides among all ranks is judged all the same."""
from __future__ import annotations

import json
from pathlib import Path

import lockstep
import pytest
from forked import SCRIPTS, run_job
from reported import FOLDER, advised
from torch.utils.data.distributed import DistributedSampler

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
data = TensorDataset(torch.arange(48.0).reshape(24, 2))


def train(model, optimizer, sampler, set_epoch=True, every=1, epochs=3):
    loader = DataLoader(sampler.dataset, batch_size=3, sampler=sampler)
    for epoch in range(epochs):
        if set_epoch:
            sampler.set_epoch(epoch)
        for nth, (x,) in enumerate(loader, 1):
            model(x).square().mean().backward()
            if nth % every == 0:
                optimizer.step()
                optimizer.zero_grad()


def made():
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=1e-4)


model, optimizer = made()
{program}
dist.destroy_process_group()
'''
TWO_MODELS = """
loader = DataLoader(data, batch_size=3, sampler=(sampler := DistributedSampler(data)))
other, its_optimizer = made()
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, in loader:
        for one, steps in ((model, optimizer), (other, its_optimizer)):
            one(x).square().mean().backward()
            steps.step()
"""
EVALUATED = """
shown = TensorDataset(torch.arange(48.0).reshape(24, 2))
held_out = DataLoader(shown, batch_size=3, sampler=DistributedSampler(shown, shuffle=False))
sampler = DistributedSampler(data)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, in DataLoader(data, batch_size=3, sampler=sampler):
        model(x).square().mean().backward()
        optimizer.step()
    for x, in held_out:
        model(x)
"""
OF_BATCHES = """
from torch.utils.data import BatchSampler, RandomSampler

class Share(BatchSampler):
    def __init__(self, batches):
        self.batch_sampler, self.num_processes = batches, world
        self.batch_size, self.drop_last = batches.batch_size, False
    def __len__(self):
        return len(self.batch_sampler) // world
    def __iter__(self):
        for index, batch in enumerate(self.batch_sampler):
            if index % world == rank:
                yield batch

order = torch.Generator()
loader = DataLoader(data, batch_sampler=Share(BatchSampler(RandomSampler(data, generator=order), 3, False)))
for epoch in range(3):
    order.manual_seed(5 {by_epoch})
    for x, in loader:
        model(x).square().mean().backward()
        optimizer.step()
"""
GIVEN = """
import lockstep
say = lockstep.annotate()
sampler = DistributedSampler(data)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, in DataLoader(data, batch_size=3, sampler=sampler):
        say.samples(x[:, 0].int().tolist())
        model(x).square().mean().backward()
        optimizer.step()
"""
SEVERAL = "for _ in range(2):\n    train(*made(), DistributedSampler(data))"
HEALTHY = {
    "one training": "train(model, optimizer, DistributedSampler(data))",
    "a step for two batches": "train(model, optimizer, DistributedSampler(data), every=2)",
    "one training after another": SEVERAL,
    "an epoch of each": "for _ in range(3):\n    train(*made(), DistributedSampler(data), epochs=1)",
    "batches are divided": OF_BATCHES.format(by_epoch="+ epoch"),
    "the program says what it reads": GIVEN,
    "two models on each batch": TWO_MODELS,
    "evaluations": EVALUATED,
    "only one rank steps": "train(model, optimizer, DistributedSampler(data), every=1 if rank == 0 else 99)",
    "all samples on all ranks": "train(model, optimizer, DistributedSampler(data, 1, 0), set_epoch=False)",
}
BROKEN = {
    "no-set-epoch": "train(model, optimizer, DistributedSampler(data), set_epoch=False)",
    "sampler-seed-differs": "train(model, optimizer, DistributedSampler(data, seed=rank))",
    "local-rank-as-rank": "train(model, optimizer, DistributedSampler(data, world, 0))",
}


def judged(program: str, scratch: Path, ranks: int = 2) -> lockstep.Report:
    script = scratch / "job.py"
    script.write_text(JOB.format(program=program))
    ran = run_job(script, ranks, scratch / "trace", scratch)
    assert ran.codes == [0] * ranks and ran.troubles == [], ran.output
    return lockstep.check(scratch / "trace")


@pytest.mark.parametrize("program", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_program_is_silent(program: str, tmp_path: Path) -> None:
    report = judged(program, tmp_path)
    assert report.ok, str(report)


@pytest.mark.parametrize("cause", BROKEN)
def test_a_wrong_division_is_named(cause: str, tmp_path: Path) -> None:
    report = judged(BROKEN[cause], tmp_path)
    assert cause in {finding.cause for finding in report.findings}, str(report)


FORGOTTEN = TWO_MODELS.replace("    sampler.set_epoch(epoch)\n", "").replace("range(3)", "range(2)")
REPEATED = {
    "batches are divided": OF_BATCHES.format(by_epoch=""),
    "two models": FORGOTTEN,
    "two models, the second one first": FORGOTTEN.replace("(other, its_optimizer)):", "(other, its_optimizer))[::1 - 2 * epoch]:"),
    "two models in turn": FORGOTTEN.replace("for x, in loader:", "for nth, (x,) in enumerate(loader):").replace(
        "(other, its_optimizer)):", "(other, its_optimizer))[nth % 2::2]:"),
}


@pytest.mark.parametrize("program", REPEATED.values(), ids=REPEATED)
def test_an_order_that_is_repeated_is_named(program: str, tmp_path: Path) -> None:
    report = judged(program, tmp_path)
    assert {finding.law for finding in report.findings} == {"epoch-reshuffled"}, str(report)


def test_a_division_among_some_of_the_ranks_is_not_judged(tmp_path: Path) -> None:
    report = judged("train(model, optimizer, DistributedSampler(data, 2, rank % 2), set_epoch=False)", tmp_path, ranks=4)
    assert report.ok and report.law("samples-covered").verdict == "not-checkable", str(report)


def test_a_model_that_is_shared_out_is_said_to_be_unchecked_beside_its_data(tmp_path: Path) -> None:
    ran = run_job(FOLDER / "sharded_no_set_epoch.py", 2, tmp_path / "trace", tmp_path, arguments=("--fixed",))
    assert ran.codes == [0, 0], ran.output
    report = lockstep.check(tmp_path / "trace")
    assert report.ok and {"A-shared-out"} == set(advised(report)), str(report)
    assert {report.law(name).verdict for name in ("epoch-reshuffled", "samples-covered")} == {"holds"}


def test_a_pass_in_a_later_training_that_forgets_its_epoch_is_named(tmp_path: Path) -> None:
    report = judged(SEVERAL + "\ntrain(*made(), DistributedSampler(data), set_epoch=False)", tmp_path)
    assert [finding.cause for finding in report.findings] == ["no-set-epoch"], str(report)


@pytest.mark.parametrize("script", ["reduced_to_one.py", "averaged_for_a_while.py"])
def test_data_are_judged_after_a_loop_that_was_recognised_has_ended(script: str, tmp_path: Path) -> None:
    text = (SCRIPTS / script).read_text()
    assert text.count("sampler.set_epoch(epoch)") == 1
    (tmp_path / "job.py").write_text(text.replace("sampler.set_epoch(epoch)", "pass"))
    ran = run_job(tmp_path / "job.py", 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    assert "no-set-epoch" in {finding.cause for finding in lockstep.check(tmp_path / "trace").findings}


def test_every_batch_counts_in_the_step_that_follows_it(tmp_path: Path) -> None:
    judged(HEALTHY["a step for two batches"], tmp_path)
    events = [json.loads(line) for line in (tmp_path / "trace" / "a000.rank-00001.jsonl").read_text().splitlines()[1:]]
    samples = [event for event in events if event["kind"] == "sample"]
    assert [event["at"][4] for event in samples] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [event["at"][5] for event in samples] == [0] * 4 + [1] * 4 + [2] * 4
    assert all(event["at"][1] == -1 and event["split"] == "train" and len(event["ids"]) == 3 for event in samples)
    given: list[int] = list(DistributedSampler(range(24), 2, 1))  # type: ignore[arg-type]
    assert [index for event in samples[:4] for index in event["ids"]] == given
