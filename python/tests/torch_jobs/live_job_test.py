"""Real jobs that are judged while they run."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lockstep
import pytest

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

# Rank 1 steps twice as far if asked to; the job takes minutes unless it is ended.
SCRIPT = """
import sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(7)
model = DistributedDataParallel(nn.Linear(8, 1))
factor = 1 + dist.get_rank() if sys.argv[1] == "broken" else 1
optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * factor)
for step in range(int(sys.argv[2])):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.05)
dist.destroy_process_group()
"""


def record(tmp_path: Path, *options: str, script: tuple[str, str]) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "lockstep", "record", "-o", str(tmp_path / "trace"), *options, "--",
         *TORCHRUN, str(path), *script], capture_output=True, text=True, timeout=280)


def test_a_job_ends_at_the_first_broken_law(tmp_path: Path) -> None:
    ran = record(tmp_path, "--stop-on", "replicas-equal", script=("broken", "4000"))
    assert ran.returncode == 1, ran.stderr
    assert "rank 1" in ran.stderr and "(law REPLICAS-EQUAL)" in ran.stderr
    assert "law replicas-equal is broken: ending the job" in ran.stderr
    ends = [json.loads(path.read_text().splitlines()[-1]) for path in (tmp_path / "trace").glob("*.jsonl")]
    assert [(end["kind"], end["outcome"], end["reason"]) for end in ends] == \
        [("end", "killed", "law-broken")] * 2
    assert all("law replicas-equal was broken" in end["detail"] for end in ends)
    # Afterwards the same is found: no rank is blamed for having been ended.
    report = lockstep.check(tmp_path / "trace")
    assert {finding.law for finding in report.findings} == {"optimizer-equal", "replicas-equal"}
    assert {finding.step for finding in report.findings} == {0}
    for finding in report.findings:
        assert finding.sentence in ran.stderr


def test_a_law_that_is_not_asked_for_lets_the_job_go_on(tmp_path: Path) -> None:
    ran = record(tmp_path, "--stop-on", "init-equal", script=("broken", "30"))
    assert "ending the job" not in ran.stderr
    assert "(law REPLICAS-EQUAL)" in ran.stderr
    assert ran.returncode == 1 or "without an active exception" in ran.stderr, ran.stderr


def test_a_healthy_job_is_left_alone(tmp_path: Path) -> None:
    ran = record(tmp_path, "--live", "--stop-on", "any", script=("healthy", "30"))
    assert "no law is broken" in ran.stderr, ran.stderr
    assert ran.returncode == 0 or "without an active exception" in ran.stderr, ran.stderr


@pytest.mark.parametrize("name, guess", [("replica-equal", "replicas-equal"), ("progres", "progress")])
def test_a_misspelt_law_is_refused_before_the_job_starts(tmp_path: Path, name: str, guess: str) -> None:
    ran = record(tmp_path, "--stop-on", name, script=("healthy", "1"))
    assert ran.returncode == 2
    assert f"did you mean '{guess}'?" in ran.stderr
    assert not (tmp_path / "trace").exists()
