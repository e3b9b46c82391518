"""Factors that make up for shares of a gradient that a loss lacks: which are recognised, and how exactly."""
from __future__ import annotations

from pathlib import Path

import lockstep
import pytest
import torch
from forked import run_job
from lockstep.torch.loss_factor import Slopes, allowance

JOB = '''
import contextlib
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(7 + dist.get_rank())
ranks = dist.get_world_size()
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
k = {k}
for step in range(2):
    optimizer.zero_grad()
    for micro in range(k):
        with contextlib.nullcontext() if micro == k - 1 else model.no_sync():
            z = model(torch.randn(6, 8))
            mean = z.mean(0)
            dist.all_reduce(mean)
            common = (mean / ranks - 1.0).square().sum()
            task = (z - 2.0).abs().mean()
            ({loss}).backward()
    optimizer.step()
dist.destroy_process_group()
'''


def judged(k: int, loss: str, ranks: int, scratch: Path) -> lockstep.Report:
    script = scratch / "job.py"
    script.write_text(JOB.replace("{k}", str(k)).replace("{loss}", loss))
    ran = run_job(script, ranks, scratch / "trace", scratch)
    assert ran.codes == [0] * ranks, ran.output
    assert ran.troubles == []
    return lockstep.check(scratch / "trace")


@pytest.mark.parametrize(("k", "loss", "ranks"), [
    (3, "common * (ranks / k)", 2),
    (4, "common * (ranks / k)", 3),
    (2, "common * (ranks / k)", 2),  # One: it is there all the same.
    (3, "task / k + common * (ranks / k)", 2),
    (3, "(task + 0.3 * common * ranks) / k", 2),
    (3, "common / k * ranks", 2),
])
def test_one_number_for_the_ranks_and_the_micro_steps_is_silent(
        k: int, loss: str, ranks: int, tmp_path: Path) -> None:
    report = judged(k, loss, ranks, tmp_path)
    assert report.ok, str(report)


@pytest.mark.parametrize(("k", "loss", "ranks"), [
    (3, "common / k", 2),
    (4, "common * (ranks / 3)", 2),  # The mean of other windows.
    (3, "(task + common) / k", 2),
    (2, "task + common", 2),
    (3, "common * ((ranks - 1) / k)", 3),
])
def test_factors_that_make_up_for_nothing_are_named(k: int, loss: str, ranks: int, tmp_path: Path) -> None:
    report = judged(k, loss, ranks, tmp_path)
    [finding] = report.findings
    assert (finding.law, finding.cause, finding.step) == \
        ("single-process-equal", "collective-outside-autograd", 0)
    assert finding.ranks == tuple(range(ranks))


SHARED_JOB = '''
import contextlib
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(7 + dist.get_rank())
rank, ranks = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
k = {k}
for step in range(4):
    optimizer.zero_grad()
    for micro in range(k):
        with contextlib.nullcontext() if micro == k - 1 else model.no_sync():
            # Every other step, rank 0 has no data.
            mask = torch.full((6,), float(rank > 0 or step % 2 == 0))
            n = (mask.sum() > 0).float()
            dist.all_reduce(n)
            n = n.item()
            errors = (model(torch.randn(6, 8)) - 2.0).square().sum(1)
            total = (errors * mask).sum() / mask.sum().clamp(min=1)
            dist.all_reduce(total)
            ({loss}).backward()
    optimizer.step()
dist.destroy_process_group()
'''


def judged_shared(k: int, loss: str, ranks: int, scratch: Path) -> lockstep.Report:
    script = scratch / "shared.py"
    script.write_text(SHARED_JOB.replace("{k}", str(k)).replace("{loss}", loss))
    ran = run_job(script, ranks, scratch / "trace", scratch)
    assert ran.codes == [0] * ranks, ran.output
    assert ran.troubles == []
    return lockstep.check(scratch / "trace")


@pytest.mark.parametrize(("k", "loss", "ranks"), [
    (1, "total * (ranks / n)", 2),
    (1, "total * (ranks / n)", 3),
    (1, "total / n * ranks", 4),
    (3, "total * (ranks / n) / k", 2),
    (2, "total * (ranks / (n * k))", 3),
])
def test_the_mean_over_the_ranks_that_have_data_is_silent(
        k: int, loss: str, ranks: int, tmp_path: Path) -> None:
    report = judged_shared(k, loss, ranks, tmp_path)
    assert report.ok, str(report)


@pytest.mark.parametrize(("k", "loss", "ranks"), [
    (1, "total / n", 3),
    (1, "total * ((ranks + 0.5) / n)", 3),
    (2, "total * (ranks / (5 * k))", 3),  # Five of three ranks.
])
def test_other_shares_of_the_ranks_are_named(k: int, loss: str, ranks: int, tmp_path: Path) -> None:
    report = judged_shared(k, loss, ranks, tmp_path)
    [finding] = report.findings
    assert (finding.law, finding.cause) == ("single-process-equal", "collective-outside-autograd")


def recognised(factor: float, dtype: torch.dtype, wanted: int = 3) -> bool:
    value = torch.ones(4, dtype=dtype, requires_grad=True)
    inner = value.sum()
    loss = inner * torch.tensor(factor, dtype=dtype)
    slopes = Slopes()
    slopes.begin([loss.grad_fn])
    slopes.watch(loss.grad_fn)
    slopes.watch(inner.grad_fn)
    loss.backward(retain_graph=True)
    return slopes.is_scaled(inner.grad_fn, wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_factor_may_be_off_by_two_roundings_of_its_type_and_by_no_more(dtype: torch.dtype) -> None:
    unit = torch.finfo(dtype).eps / 2
    spacing = 2 * torch.finfo(dtype).eps  # Of numbers from 2 to 4: a third more than two units of 3.
    assert recognised(3.0, dtype)
    assert spacing / 3.0 < allowance(2, unit) < 2 * spacing / 3.0
    for sign in (-1, 1):
        assert recognised(3.0 + sign * spacing, dtype)
        assert not recognised(3.0 + sign * 2 * spacing, dtype)


def test_roundings_add_up_along_a_chain_of_products() -> None:
    """Eight products, whose roundings lie within the sum of their bounds; three times that sum does not."""
    def slope_of(factors: list[float]) -> tuple[Slopes, torch.Tensor]:
        inner = torch.ones(4, requires_grad=True).sum()
        nodes, loss = [inner.grad_fn], inner
        for factor in factors:
            loss = loss * factor
            nodes.append(loss.grad_fn)
        slopes = Slopes()
        slopes.begin([loss.grad_fn])
        for node in nodes:
            slopes.watch(node)
        loss.backward(retain_graph=True)
        return slopes, inner

    fractions = [1 / 7, 7.0, 1 / 11, 11.0, 1 / 13, 13.0, 3.0 / 5, 5.0]
    slopes, inner = slope_of(fractions)
    assert slopes.is_scaled(inner.grad_fn, 3)
    off = allowance(2 * len(fractions), torch.finfo(torch.float32).eps / 2)
    slopes, inner = slope_of([*fractions[:-1], 5.0 * (1 + 3 * off)])
    assert not slopes.is_scaled(inner.grad_fn, 3)
