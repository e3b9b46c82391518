"""What becomes of a batch decides whether it is trained on, not the first forward that gets it."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lockstep
import pytest
from forked import run_job
from reported import advised

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(7)
data = TensorDataset(torch.linspace(0, 1, 48)[:, None])
held_out = TensorDataset(torch.linspace(1, 2, 16)[:, None])
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=6, sampler=sampler)
others = DataLoader(held_out, batch_size=4, sampler=DistributedSampler(held_out, shuffle=False))
model = DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def step(x):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()

def look(x):
    with torch.no_grad():
        return model(x).mean()

def label(x):
    model.eval()
    labels = look(x)
    model.train()
    return labels
{program}
dist.destroy_process_group()
'''


def run(program: str, scratch: Path) -> tuple[lockstep.Report, list[dict[str, Any]]]:
    """The report, and what rank 0 recorded."""
    script = scratch / "job.py"
    script.write_text(JOB.replace("{program}", program))
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0], ran.output
    assert ran.troubles == []
    lines = min((scratch / "trace").glob("*.jsonl")).read_text().splitlines()[1:]
    return lockstep.check(scratch / "trace"), [json.loads(line) for line in lines]


def epochs_of(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(event["split"], event["at"][5]) for event in events if event["kind"] == "epoch"]


def n_samples(events: list[dict[str, Any]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for event in events:
        if event["kind"] == "sample":
            counts[event["split"]] = counts.get(event["split"], 0) + len(event["ids"])
    return counts


USED_FIRST = """
for epoch in range(3):
    if {sets}:
        sampler.set_epoch(epoch)
    for x, in loader:
        {looks}
        step(x)
"""
LOOKS = ["look(x)", "label(x)", "dist.all_reduce(look(x))"]


@pytest.mark.parametrize("looks", LOOKS)
def test_a_batch_that_is_looked_at_before_it_is_trained_on_is_trained_on(looks: str, tmp_path: Path) -> None:
    report, events = run(USED_FIRST.format(looks=looks, sets=True), tmp_path)
    assert report.ok, str(report)
    assert epochs_of(events) == [("train", 0), ("train", 1), ("train", 2)]
    assert n_samples(events) == {"train": 72}


@pytest.mark.parametrize("looks", LOOKS)
def test_an_order_that_repeats_is_named_where_batches_are_looked_at_first(looks: str, tmp_path: Path) -> None:
    report, _ = run(USED_FIRST.format(looks=looks, sets=False), tmp_path)
    [finding] = report.findings
    assert (finding.law, finding.cause, finding.epoch) == ("epoch-reshuffled", "no-set-epoch", 1)


EVALUATED = """
def evaluate(loader):
    model.eval()
    results = []
    {loop}
    model.train()
    total = sum(results)
    {combines}

for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, in loader:
        step(x)
    evaluate({data})
"""
WHOLE = "for x, in loader: results.append(look(x))"
COUNTED = """batches = iter(loader)
    for _ in range(len(loader)):
        results.append(look(next(batches)[0]))
    {combines}"""


@pytest.mark.parametrize("data", ["loader", "others"])
def test_an_evaluation_between_epochs_is_one_whatever_data_it_has(data: str, tmp_path: Path) -> None:
    report, events = run(EVALUATED.format(loop=WHOLE, combines="dist.all_reduce(total)", data=data), tmp_path)
    assert report.ok, str(report)
    assert epochs_of(events) == [("train", 0), ("eval", 0), ("train", 1), ("eval", 1)]
    assert n_samples(events) == {"train": 48, "eval": 48 if data == "loader" else 16}


PERSISTENT = """
loader = DataLoader(data, batch_size=6, shuffle=True, num_workers=1, persistent_workers=True)
for epoch in range(2):
    for x, in loader: step(x)
    model.eval()
    for x, in loader: look(x)
    model.train()
"""


def test_a_pass_of_workers_that_live_on_is_an_evaluation_where_the_one_before_was_not(tmp_path: Path) -> None:
    _, events = run(PERSISTENT, tmp_path)
    assert n_samples(events) == {"train": 96, "eval": 96}


# The samples come where they would without a doubt: before a call brings together what was found.
@pytest.mark.parametrize("loop", [WHOLE, COUNTED], ids=["to its end", "counted"])
def test_the_samples_of_an_evaluation_come_before_the_call_that_combines_it(loop: str, tmp_path: Path) -> None:
    combines = "dist.all_reduce(sum(results))"
    program = EVALUATED.format(loop=loop.format(combines=combines), combines=combines if loop == WHOLE else "", data="others")
    report, events = run(program, tmp_path)
    assert "A-evaluated-apart" not in advised(report)
    kinds = [event["kind"] for event in events if event["kind"] == "sample" and event["split"] == "eval" or
             event["kind"] == "collective" and event["phase"] == "posted" and not event["scope"]]
    assert kinds == ["sample", "sample", "collective"] * 2


def test_what_nothing_combines_is_named(tmp_path: Path) -> None:
    report, _ = run(EVALUATED.format(loop=COUNTED.format(combines=""), combines="", data="others"), tmp_path)
    assert "A-evaluated-apart" in advised(report)


LEFT = """
for epoch in range(2):
    for nth in range(4):
        step(data[6 * nth:6 * nth + 6][0])
    label(next(iter(others))[0])
"""


def test_a_batch_of_a_loop_that_was_left_is_not_what_is_trained_on_next(tmp_path: Path) -> None:
    _, events = run(LEFT, tmp_path)
    assert n_samples(events) == {"eval": 8}, "and what was evaluated last is there, too"


# Every second batch is only looked at, as a query is, or one of a low loss that is skipped.
SKIPPED = """
for epoch in range(3):
    sampler.set_epoch(epoch)
    for nth, (x,) in enumerate(loader):
        look(x) if nth % 2 == {nth} else step(x)
"""


def test_a_batch_that_a_loop_skips_belongs_to_what_the_loop_trains_on(tmp_path: Path) -> None:
    report, events = run(SKIPPED.format(nth=1), tmp_path)
    assert report.ok, str(report)
    assert n_samples(events) == {"train": 72}


def test_a_pass_that_begins_with_a_look_is_an_epoch_once_it_is_trained_on(tmp_path: Path) -> None:
    report, events = run(SKIPPED.format(nth=0), tmp_path)
    assert report.ok, str(report)
    assert [one for one in epochs_of(events) if one[0] == "train"] == [("train", 0), ("train", 1), ("train", 2)]
    assert n_samples(events) == {"train": 54, "eval": 18}


TWO_MODELS = """
other = DistributedDataParallel(nn.Linear(1, 1))
with torch.no_grad():
    for x, in others:
        model(x) + other(x)
"""


def test_what_two_models_evaluate_is_counted_once_and_for_the_first(tmp_path: Path) -> None:
    _, events = run(TWO_MODELS, tmp_path)
    assert [event["at"][1] for event in events if event["kind"] == "sample"] == [0, 0]


ASKED_BY_HAND = """
for epoch in range(3):
    if {sets}:
        sampler.set_epoch(epoch)
    for index in sampler:
        x = data[index][0][None]
        look(x)
        step(x)
"""


def test_a_sampler_that_no_loader_asks_is_of_what_its_draws_are_used_for(tmp_path: Path) -> None:
    report, events = run(ASKED_BY_HAND.format(sets=True), tmp_path)
    assert report.ok, str(report)
    assert epochs_of(events) == [("train", 0), ("train", 1), ("train", 2)]


def test_an_evaluation_by_hand_is_one_before_the_sampler_is_asked_again(tmp_path: Path) -> None:
    program = """
for use in (look, step):
    for index in sampler:
        use(data[index][0][None])
"""
    _, events = run(program, tmp_path)
    assert epochs_of(events) == [("eval", 0), ("train", 0)]
