"""Models that hold a wrapper when they are wrapped."""
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lockstep
import pytest
from forked import run_job
from lockstep.torch.wrapped_again import remark_on, take_inside
from torch import nn

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
crossed = [dist.new_group([0, 2]), dist.new_group([1, 3])]
model = DistributedDataParallel(nn.Linear(8, 1){inner})
ddp = DistributedDataParallel({outer})
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    ddp(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
'''


def run(folder: Path, outer: str, inner: str = "", n_ranks: int = 2) -> tuple[list[str], lockstep.Report]:
    """What its ranks said of wrappers, and what is found in its trace."""
    script = folder / "job.py"
    pairs = n_ranks == 4
    script.write_text("\n".join(line for line in JOB.format(inner=inner, outer=outer).splitlines()
                                if pairs or "new_group" not in line))
    ran = run_job(script, n_ranks, folder / "trace", folder)
    assert ran.codes == [0] * n_ranks and ran.troubles == [], ran.output
    return [line for line in ran.output.splitlines() if "wrapped again" in line], lockstep.check(folder / "trace")


def advice_of(report: lockstep.Report) -> list[str]:
    return [text for law in report.laws for text in law.advice]


@pytest.mark.parametrize("outer", ["model", "nn.Sequential(model, nn.Tanh())"])
def test_a_wrapper_that_is_wrapped_is_said_to_be_and_advised_against(outer: str, tmp_path: Path) -> None:
    said, report = run(tmp_path, outer)
    text = "a module that is already wrapped is wrapped again at {}: each backward reduces its gradients twice"
    at = f"{tmp_path / 'job.py'}:11"
    assert sorted(said) == [f"lockstep: rank {rank}: {text.format(at)}" for rank in (0, 1)]
    assert report.findings == ()
    (advice,) = advice_of(report)
    assert advice.startswith(f"A-wrapped-again: ranks 0, 1: {text.format(at)}"), advice


def test_the_model_of_a_wrapper_may_be_wrapped_anew(tmp_path: Path) -> None:
    said, report = run(tmp_path, "model.module")
    assert said == [] and report.findings == () and advice_of(report) == []


def test_a_wrapper_may_reduce_within_nodes_and_another_between_them(tmp_path: Path) -> None:
    said, report = run(tmp_path, "model, process_group=crossed[rank % 2]", ", process_group=pairs[rank // 2]", n_ranks=4)
    assert said == [] and [one for one in advice_of(report) if "wrapped" in one] == []


class Known:
    """A wrapper that the recorder knows."""

    group = 0
    forgotten = False

    def forget(self) -> None:
        self.forgotten = True


def test_what_is_wrapped_again_is_followed_by_the_outer_wrapper_alone() -> None:
    inner, other = nn.Linear(2, 2), nn.Linear(2, 2)
    known: Any = {inner: Known(), other: Known()}
    (taken,) = take_inside(known, nn.Sequential(nn.Tanh(), inner))
    assert taken.forgotten
    assert list(known) == [other]
    assert not known[other].forgotten


def test_a_wrapper_that_is_wrapped_again_is_not_reported_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    recorder: Any = SimpleNamespace(pen=None, rank=0)
    wrapper: Any = Known()
    remark_on(recorder, [wrapper], wrapper)
    assert capsys.readouterr().err == ""
