"""Models that are wrapped apart and share parameters are reduced rightly, and no law accuses them."""
from __future__ import annotations

from pathlib import Path

import lockstep
import pytest
from forked import Ran, run_job

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
trunk, heads = nn.Linear(4, 8), [nn.Linear(8, 1), nn.Linear(8, 1)]
first, second = (DistributedDataParallel(nn.Sequential(trunk, nn.Tanh(), head)) for head in heads)
optimizer = torch.optim.SGD([*trunk.parameters(), *heads[0].parameters(), *heads[1].parameters()], lr=0.1)
draws = torch.Generator().manual_seed(dist.get_rank())
for step in range(4):
    x = torch.randn(4, 4, generator=draws)
    optimizer.zero_grad()
    {backwards}
    optimizer.step()
    {after}
    print("trunk", trunk.weight.sum().item(), flush=True)
dist.destroy_process_group()
'''
IN_TURN = "first(x).mean().backward(); second(x).square().mean().backward()"
THE_OTHER_WAY = "second(x).square().mean().backward(); first(x).mean().backward()"
TOGETHER = "(first(x).mean() + second(x).square().mean()).backward()"
NUDGED = "trunk.weight.data += 0.1 * dist.get_rank() * (step == 2)"


def ran(scratch: Path, backwards: str, after: str = "pass") -> tuple[Ran, lockstep.Report]:
    script = scratch / "job.py"
    script.write_text(JOB.format(backwards=backwards, after=after))
    job = run_job(script, 2, scratch / "trace", scratch)
    assert job.codes == [0, 0], job.output
    return job, lockstep.check(scratch / "trace")


@pytest.mark.parametrize("backwards", [IN_TURN, THE_OTHER_WAY, TOGETHER])
def test_sums_of_their_means_are_accused_of_nothing(backwards: str, tmp_path: Path) -> None:
    job, report = ran(tmp_path, backwards)
    lines = [line for line in job.output.splitlines() if line.startswith("trunk")]
    assert sorted(lines) == sorted(2 * lines[:4]), "the replicas are equal"
    assert report.ok, str(report)
    assert list(report.notes) == ["not recorded on ranks 0, 1, and not judged: gradients of models that are wrapped apart "
                                  "and share parameters, the first of them `0.weight`"]
    assert job.output.count("not recorded: gradients of models") == 2


def test_replicas_that_come_apart_are_noticed_all_the_same(tmp_path: Path) -> None:
    _, report = ran(tmp_path, IN_TURN, NUDGED)
    assert {finding.law for finding in report.findings} == {"replicas-equal"}, str(report)
    assert {finding.tensor for finding in report.findings} == {"0.weight"}


def test_models_that_share_nothing_are_looked_at(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    text = JOB.replace("nn.Sequential(trunk,", "nn.Sequential(nn.Linear(4, 8),").replace("[*trunk.parameters(), *heads", "[*heads")
    script.write_text(text.format(backwards=IN_TURN, after="pass"))
    run_job(script, 2, tmp_path / "trace", tmp_path)
    report = lockstep.check(tmp_path / "trace")
    assert not report.notes and report.law("gradient-mean").verdict == "holds", str(report)
