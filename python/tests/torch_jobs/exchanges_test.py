"""Which backward answers which call: functions of autograd whose forwards exchange values."""
from __future__ import annotations

from pathlib import Path

import lockstep
import pytest
from forked import run_job

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def gathered(x):
    rows = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, x)
    return torch.cat(rows)


def own(ctx, x):
    return x[ctx.first:ctx.first + ctx.n]


class Answers(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.n, ctx.first = len(x), len(x) * dist.get_rank()
        return gathered(x)

    @staticmethod
    def backward(ctx, grad):
        dist.all_reduce(grad)
        return own(ctx, grad)


class KeepsItsShare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.n, ctx.first = len(x), len(x) * dist.get_rank()
        return gathered(x)

    @staticmethod
    def backward(ctx, grad):
        return own(ctx, grad)


dist.init_process_group("gloo")
torch.manual_seed(7 + dist.get_rank())
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    optimizer.zero_grad()
    z = model(torch.randn(6, 8))
    first, second = {first}.apply(z), {second}.apply(z.square())
    (z @ first.T).logsumexp(1).mean().add((z @ second.T).logsumexp(1).mean()).backward()
    optimizer.step()
dist.destroy_process_group()
'''


def judged(first: str, second: str, scratch: Path) -> lockstep.Report:
    script = scratch / "job.py"
    script.write_text(JOB.replace("{first}", first).replace("{second}", second))
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0], ran.output
    assert ran.troubles == []
    return lockstep.check(scratch / "trace")


@pytest.mark.parametrize(("first", "second"), [("Answers", "KeepsItsShare"), ("KeepsItsShare", "Answers")])
def test_a_call_in_one_backward_answers_no_call_of_another_function(
        first: str, second: str, tmp_path: Path) -> None:
    [finding] = judged(first, second, tmp_path).findings
    assert (finding.law, finding.cause, finding.ranks) == ("single-process-equal", "gather-own-share", (0, 1))


def test_two_functions_whose_backwards_both_answer_are_silent(tmp_path: Path) -> None:
    report = judged("Answers", "Answers", tmp_path)
    assert report.ok, str(report)


HOOKED = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(7 + dist.get_rank())
model = DistributedDataParallel(nn.Linear(8, 4))
model.register_comm_hook(None, default_hooks.allreduce_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    optimizer.zero_grad()
    mean = model(torch.randn(6, 8)).mean(0)
    dist.all_reduce(mean)
    ((mean / dist.get_world_size() - 1.0).square().sum() * {factor}).backward()
    optimizer.step()
dist.destroy_process_group()
'''


@pytest.mark.parametrize("factor", ["1", "dist.get_world_size()"])
def test_a_call_that_a_hook_makes_for_gradients_answers_nothing(factor: str, tmp_path: Path) -> None:
    script = tmp_path / "hooked.py"
    script.write_text(HOOKED.replace("{factor}", factor))
    assert run_job(script, 2, tmp_path / "trace", tmp_path).codes == [0, 0]
    report = lockstep.check(tmp_path / "trace")
    if factor == "1":
        [finding] = report.findings
        assert (finding.law, finding.cause) == ("single-process-equal", "collective-outside-autograd")
    else:
        assert report.ok, str(report)
