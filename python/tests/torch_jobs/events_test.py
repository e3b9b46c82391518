"""What is recorded is what happened: the job prints its own numbers, and they are in its trace."""
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from forked import run_job

LOCKSTEP = Path(os.environ["LOCKSTEP_BUILD"]) / "bin" / "lockstep"
JOB = '''
import os
import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(3)
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, betas=(0.5, 0.75), eps=2.0 ** -20,
                              weight_decay=0.125)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
say = lockstep.annotate()
say.epoch(5, dataset_size=8, n_replicas=2, per_rank=4)
for step in range(3):
    x = torch.randn(2, 4)
    say.samples([4 * dist.get_rank() + step])
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.0625)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print("step", step, loss.item(), norm.item(), flush=True)
say.metric("accuracy", 0.5, numerator=1, denominator=2, parts=[1.0, 0.0])
say.decision("stop", False)
say.configuration("vocabulary", "a b c")
say.stream("crop", torch.Generator(), shared=True)
say.buffers(["none"], "local")
say.snapshot("fresh", -1, "here")
torch.save(model.state_dict(), f"{FOLDER}/{dist.get_rank()}.pt")
torch.load(f"{FOLDER}/{dist.get_rank()}.pt")
dist.destroy_process_group()
'''


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]], Path]:
    """Output, events of rank 0, and the folder of its files."""
    scratch = tmp_path_factory.mktemp("events")
    script = scratch / "job.py"
    script.write_text(JOB.replace("{FOLDER}", str(scratch)))
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (scratch / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    return ran.output, [json.loads(line) for line in lines[1:]], scratch


def kinds(job: tuple[str, list[dict[str, Any]], Path], kind: str) -> list[dict[str, Any]]:
    return [event for event in job[1] if event["kind"] == kind]


def printed(job: tuple[str, list[dict[str, Any]], Path], column: int) -> list[float]:
    return [float(line.split()[column]) for line in job[0].splitlines() if line.startswith("step ")]


def test_losses_are_those_before_the_scaler(job: Any) -> None:
    events = kinds(job, "loss")
    assert [event["value"] for event in events] == printed(job, 2)
    assert [event["at"][4] for event in events] == [0, 1, 2]


def test_clipping_tells_its_limit_norm_and_factor(job: Any) -> None:
    events = kinds(job, "clip")
    assert [event["norm"] for event in events] == printed(job, 3)
    for event in events:
        assert event["limit"] == 0.0625 and event["norm_type"] == 2 and event["whole"]
        assert event["factor"] == pytest.approx(min(1.0, 0.0625 / (event["norm"] + 1e-6)), rel=1e-6)
        assert event["names"] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_options_are_told_once_by_their_names(job: Any) -> None:
    [event] = kinds(job, "options")
    options = dict(zip(event["options"], event["values"]))
    assert event["optimizer"] == "adamw"
    assert {name: options[name] for name in ("lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad")} == {
        "lr": 0.25, "beta1": 0.5, "beta2": 0.75, "eps": 2.0 ** -20, "weight_decay": 0.125, "amsgrad": 0}


def test_cleared_gradients_and_buckets_are_told(job: Any) -> None:
    assert len(kinds(job, "zero_grad")) == 3
    planned, rebuilt = kinds(job, "bucket")
    for bucket in (planned, rebuilt):
        assert sorted(bucket["indices"]) == [0, 1, 2, 3] and sum(bucket["lengths"]) == 4
    # Known from DDP's log, which has it one step after they were made.
    assert [bucket["at"][4] for bucket in (planned, rebuilt)] == [0, 2]


def test_forwards_find_the_parameters_that_the_last_step_left(job: Any) -> None:
    points = [event["point"] for event in kinds(job, "param")]
    assert points.count("step") == 3 and "found" not in points


# Clips in its second step.
CLIPPED_JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    if step == 1:
        nn.utils.clip_grad_norm_(model.parameters(), 0.0625)
    optimizer.step()
'''


def test_gradients_as_they_are_used_have_sketches_where_they_are_not_those_that_were_reduced(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(CLIPPED_JOB)
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    for path in sorted((tmp_path / "trace").glob("*.jsonl")):
        events = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        used = [event for event in events if event["kind"] == "grad" and event["point"] == "used"]
        assert [bool(event["sketches"]) for event in used] == [False, True, False]


BUCKETS_JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

class Net(nn.Module):
    """Uses its layers in another order than it makes them."""
    def __init__(self):
        super().__init__()
        self.last, self.first, self.middle = nn.Linear(70, 5), nn.Linear(3, 40), nn.Linear(40, 70)
    def forward(self, x):
        return self.last(torch.tanh(self.middle(torch.tanh(self.first(x)))))

dist.init_process_group("gloo")
torch.manual_seed(3)
model = DistributedDataParallel(Net(), bucket_cap_mb=0.002)
optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
'''
SIZES = [5 * 70, 5, 40 * 3, 40, 70 * 40, 70]  # Of its parameters: weight and bias of last, first, middle.


def test_buckets_made_anew_are_those_that_are_reduced(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(BUCKETS_JOB)
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    for path in sorted((tmp_path / "trace").glob("*.jsonl")):
        events = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        planned, rebuilt = (event for event in events if event["kind"] == "bucket")
        reduced = [[event["count"] for event in events if event["kind"] == "collective" and event["phase"] == "posted"
                    and event["op"] == "all_reduce" and event["at"][4] == step] for step in range(4)]
        assert reduced[0] == sizes_of(planned)
        assert reduced[1] == reduced[2] == reduced[3] == sizes_of(rebuilt)
        assert reduced[0] != reduced[1], "the two plans differ, so that sizes tell which was used"


def sizes_of(bucket: dict[str, Any]) -> list[int]:
    indices = iter(bucket["indices"])
    return [sum(SIZES[next(indices)] for _ in range(length)) for length in bucket["lengths"]]


def test_files_are_told_with_what_was_in_them(job: Any) -> None:
    part, read = (event for event in kinds(job, "snapshot") if event["action"] in ("part", "read"))
    assert part["detail"] == read["detail"] == str(job[2] / "0.pt")
    assert part["digest"] == read["digest"] != "0000000000000000"


def test_a_backward_waits_for_what_its_reducer_has_posted(job: Any) -> None:
    checked = subprocess.run([LOCKSTEP, "check", job[2] / "trace", "--times", "--json"], text=True, capture_output=True)
    times = json.loads(checked.stdout)["times"]
    assert times["own_async_calls"] == 0
    assert 0 < times["exposed"]["median_ns"] < times["communication"]["most_ns"]


def test_a_report_names_the_first_call_of_each_bucket(job: Any) -> None:
    page = job[2] / "report.html"
    subprocess.run([LOCKSTEP, "check", job[2] / "trace", "--report", page], capture_output=True)
    [reduction, *_] = [event for event in kinds(job, "collective") if event["scope"] == "ddp.backward"]
    assert f"all_reduce #{reduction['seq']}" in page.read_text().partition("Buckets in the order of their launch")[2]


def test_words_of_the_program_are_told(job: Any) -> None:
    assert kinds(job, "epoch")[0]["at"][5] == 5
    assert [event["ids"] for event in kinds(job, "sample")] == [[0], [1], [2]]
    [metric] = kinds(job, "metric")
    assert (metric["name"], metric["value"], metric["parts"]) == ("accuracy", 0.5, [1, 0])
    [decision] = kinds(job, "decision")
    assert (decision["name"], decision["value"]) == ("stop", 0)
    assert [event["name"] for event in kinds(job, "configuration")] == ["model", "vocabulary"]
    assert kinds(job, "rng")[0]["shared"] is True
    assert kinds(job, "buffer_policy")[0]["policy"] == "local"
    assert kinds(job, "snapshot")[0]["action"] == "fresh"
