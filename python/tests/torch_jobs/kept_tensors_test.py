"""Tensors that a wrapper keeps are recorded as they are: bound anew, frozen, and once more when the wrapper goes away."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from forked import run_job

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.target = nn.Linear(2, 1), nn.Linear(2, 1).requires_grad_(False)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        self.mean = self.mean + 1.0
        return self.layer(x)

def train():
    model = Net()
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.layer.parameters(), lr=0.125)
    for step in range(3):
        optimizer.zero_grad()
        ddp(torch.ones(1, 2)).sum().backward()
        norm = torch.tensor(100.0)
        nn.utils.clip_grads_with_norm_(model.layer.parameters(), 1000.0, norm)
        optimizer.step()
        with torch.no_grad():
            model.target.weight.fill_(step)

train()
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
'''


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Those of rank 0."""
    scratch: Path = tmp_path_factory.mktemp("kept")
    script = scratch / "job.py"
    script.write_text(JOB)
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (scratch / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def digests(events: list[dict[str, Any]], kind: str, point: str, name: str) -> list[str]:
    found = [event for event in events if event["kind"] == kind and event["point"] == point and name in event["names"]]
    return [event["digests"][event["names"].index(name)] for event in found]


def test_a_buffer_that_is_bound_anew_is_the_one_that_is_recorded(events: list[dict[str, Any]]) -> None:
    """0, 1 and 2 before the forwards, 3 at the end."""
    seen = digests(events, "buffer", "forward", "mean") + digests(events, "buffer", "end", "mean")
    assert len(seen) == 4
    assert len(set(seen)) == 4


def test_frozen_parameters_are_recorded_after_each_step(events: list[dict[str, Any]]) -> None:
    """As drawn, 0 and 1; the last value at the end."""
    seen = digests(events, "param", "step", "target.weight") + digests(events, "param", "end", "target.weight")
    assert len(seen) == 4
    assert len(set(seen)) == 4


def test_a_wrapper_that_goes_away_leaves_its_states_once(events: list[dict[str, Any]]) -> None:
    ends = [number for number, event in enumerate(events) if event.get("point") == "end"]
    assert [events[number]["kind"] for number in ends] == ["param", "buffer"]
    sums = [number for number, event in enumerate(events)
            if event["kind"] == "collective" and event["op"] == "all_reduce" and event["count"] == 1]
    assert ends[-1] < sums[0]  # It went away before the program's own call.
    trained = digests(events, "param", "step", "layer.weight")[-1]
    assert digests(events, "param", "end", "layer.weight") == [trained]


def test_a_norm_that_is_given_comes_with_that_of_the_gradients(events: list[dict[str, Any]]) -> None:
    """Both gradients of the weight and that of the bias are one: the root of three."""
    clips = [event for event in events if event["kind"] == "clip"]
    assert len(clips) == 3
    for clip in clips:
        assert clip["norm"] == 100.0
        assert clip["own"] == pytest.approx(3 ** 0.5, abs=4e-7)
