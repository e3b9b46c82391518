"""What virtual ranks did is judged as what real ones did: the same scripts, the same findings."""
from __future__ import annotations

from pathlib import Path

import pytest
from soaking import with_ranks
from torch_jobs.caught_test import BROKEN, HEALTHY, LOSSY, MEANT, fits
from virtual_job import SCRIPTS, printed, run_virtual


def options_of(script: str) -> tuple[str, ...]:
    return ("--buffers", MEANT[script]) if script in MEANT else ()


@pytest.mark.parametrize("script", BROKEN)
def test_a_broken_script_is_caught(script: str) -> None:
    ranks, expected = BROKEN[script]
    outcome = run_virtual(SCRIPTS / script, ranks, *options_of(script))
    assert outcome.report is not None
    assert not outcome.ok
    for wanted in expected:
        assert any(fits(finding, wanted) for finding in outcome.report.findings), f"{wanted}\n{outcome.report}"


@pytest.mark.parametrize(("script", "ranks"), with_ranks(HEALTHY, shift=1))
def test_a_healthy_script_is_silent(script: str, ranks: int) -> None:
    outcome = run_virtual(SCRIPTS / script, ranks)
    assert outcome.found["outcome"] == "ok", outcome.found["wait_for"] + printed(outcome)
    assert outcome.report is not None
    assert outcome.report.ok, str(outcome.report)
    assert sum(law.verdict == "holds" for law in outcome.report.laws) >= 7


@pytest.mark.parametrize("script", LOSSY)
def test_a_lossy_hook_leaves_equal_replicas(script: str) -> None:
    outcome = run_virtual(SCRIPTS / script, 2)
    assert outcome.found["outcome"] == "ok", printed(outcome)
    assert outcome.report is not None
    assert {finding.law for finding in outcome.report.findings} <= {"gradient-mean"}, str(outcome.report)




# After its first step rank 0 samples through the wrapper, whose buffers it broadcasts; the others broadcast their new buckets then.
SAMPLES = '''
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.Adam(ddp.parameters())
draws = torch.Generator().manual_seed(dist.get_rank())
for step in range(3):
    x = torch.randn(4, 8, generator=draws)
    ddp.zero_grad()
    loss = nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    losses = [None] * dist.get_world_size()
    dist.all_gather_object(losses, loss.item())
    if dist.get_rank() == 0 and step % 100 == 0:
        ddp.eval()
        with torch.no_grad():
            (model if "--fixed" in sys.argv else ddp)(x[:2])
        ddp.train()
'''


def test_a_forward_of_rank_0_alone_is_named_where_the_wrapper_sends_before_its_module_runs(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SAMPLES)
    outcome = run_virtual(script, 2)
    assert outcome.report is not None
    found = [each for each in outcome.report.findings if each.law == "collectives-match"]
    assert [(each.ranks, each.cause) for each in found] == [((0,), "rank0-only-collective")], str(outcome.report)
    assert "rank 0 evaluates through the wrapper here" in found[0].message
    fixed = run_virtual(script, 2, arguments=("--fixed",))
    assert fixed.ok and fixed.report is not None and fixed.report.ok, printed(fixed)
