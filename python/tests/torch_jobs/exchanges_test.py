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


PLAIN = '''
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def gathered(z):
    rows = [torch.empty_like(z) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, z)
    return torch.cat(rows)


def lowered(product):
    with torch.autocast("cpu", torch.bfloat16):
        return product()


dist.init_process_group("gloo")
rank = dist.get_rank()
draws = torch.Generator().manual_seed(7 + rank)
labels = torch.arange(6) + 6 * rank
mine = slice(6 * rank, 6 * rank + 6)
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    optimizer.zero_grad()
    q, k = model(torch.randn(6, 8, generator=draws)).chunk(2, 1)
    q, k = q.contiguous(), k.contiguous()
    {gather}
    loss = nn.functional.cross_entropy({logits}, labels)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
'''
# What is gathered, and what a loss makes of it.
LOST = {
    "keys": ("keys = gathered(k)", "q @ keys.T"),
    "keys and queries": ("keys, queries = gathered(k), gathered(q)", "(q @ keys.T + k @ queries.T) / 2"),
    "twice the same rows": ("keys = gathered(k)", "k @ keys.T"),
    "beside one that the backward answers": ("keys = gathered(k); everyone = torch.cat(differentiable.all_gather(q))",
                                             "everyone[mine] @ keys.T"),
    "of a clone": ("keys = gathered(k.clone())", "q @ keys.T"),
    "one tensor of two": ("keys = torch.cat([gathered(q), gathered(k)])", "q @ keys.T + k @ keys.T"),
    "with a factor before it": ("keys = gathered(k)", "(2.0 * (q + k)) @ keys.T"),
    "under autocast": ("keys = gathered(k)", "lowered(lambda: q @ keys.T)"),
}
KEPT = {
    "own rows are written into them": ("keys = gathered(k); keys[mine] = k", "q @ keys.T"),
    "own logits take the place of theirs": ("keys = gathered(k)", "torch.cat([(q @ keys.T)[:, :mine.start], "
                                            "q @ k.T, (q @ keys.T)[:, mine.stop:]], 1)"),
    "own rows, cloned, are what was sent": ("keys = gathered(k.clone())", "q @ keys.T + 0 * (q @ k.T).sum()"),
    "the keys are detached": ("keys = gathered(k.detach())", "q @ keys.T"),
    "the keys are gathered without gradients": ("torch.set_grad_enabled(False); keys = gathered(k); "
                                                "torch.set_grad_enabled(True)", "q @ keys.T"),
    "a measure is gathered": ("seen = gathered(k); spread = float(torch.cdist(seen, seen).mean())", "q @ k.T.repeat(1, 2)"),
    "their mean is a centre": ("centre = gathered(k).mean(0)", "(q - centre) @ k.T.repeat(1, 2)"),
}


def judged_plain(gather: str, logits: str, scratch: Path) -> lockstep.Report:
    script = scratch / "plain.py"
    script.write_text(PLAIN.replace("{gather}", gather).replace("{logits}", logits))
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0], ran.output
    assert ran.troubles == []
    return lockstep.check(scratch / "trace")


@pytest.mark.parametrize("case", LOST)
def test_rows_that_carry_no_gradient_into_a_loss_are_found(case: str, tmp_path: Path) -> None:
    report = judged_plain(*LOST[case], tmp_path)
    assert {(finding.law, finding.cause) for finding in report.findings} == {("single-process-equal", "gather-own-share")}, str(report)
    assert {finding.ranks for finding in report.findings} == {(0, 1)}
    assert {Path(finding.site).name for finding in report.findings} == {"plain.py:11"}


@pytest.mark.parametrize("case", KEPT)
def test_rows_that_need_no_gradient_are_left_alone(case: str, tmp_path: Path) -> None:
    report = judged_plain(*KEPT[case], tmp_path)
    assert report.ok, str(report)


def test_a_loss_that_is_computed_anew_in_the_backward_is_so_once(tmp_path: Path) -> None:
    counted = ("n_computed = 2 * step; keys = gathered(k)\n"
               "    def product(left, right):\n"
               "        global n_computed\n"
               "        n_computed += 1\n"
               "        return left @ right.T")
    anew = "torch.utils.checkpoint.checkpoint(product, q, keys, use_reentrant=False)"
    once = "optimizer.step()\n    assert n_computed == 2 * step + 2, n_computed"
    script = tmp_path / "anew.py"
    text = PLAIN.replace("{gather}", counted).replace("{logits}", anew).replace("optimizer.step()", once)
    script.write_text("import torch.utils.checkpoint\n" + text)
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0], ran.output
    assert lockstep.check(tmp_path / "trace").ok
