"""Virtual ranks compute what real Gloo processes compute, bit for bit, over a matrix of what DDP offers."""
from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from soaking import with_ranks
from torch_jobs.forked import run_job
from torch_jobs.unchanged_test import CONFIGURATIONS, JOB, PLAIN
from virtual_job import lines_of, printed, run_virtual

# One bucket above 1 MiB, where Gloo's ring has other segments.
LARGE = '''
import hashlib
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(700, 700), nn.Tanh(), nn.Linear(700, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(4, 700)).square().mean().backward()
    optimizer.step()
    digest = hashlib.sha256(b"".join(p.grad.numpy().tobytes() for p in model.parameters())).hexdigest()
    print("rank", dist.get_rank(), step, digest, flush=True)
'''


def job_of(name: str) -> str:
    """The job, which says the digest of its whole state after every batch."""
    training, _, saying = JOB.partition("state = [")
    assert saying
    job = training + textwrap.indent("state = [" + saying, "    ")
    job = job.replace("dist.get_rank(), digest", "dist.get_rank(), batch, digest")
    for key, value in (PLAIN | CONFIGURATIONS[name]).items():
        job = job.replace("{" + key + "}", repr(value))
    return job


def results(text: str, ranks: int, scratch: Path, *given: str) -> tuple[list[str], list[str]]:
    """What virtual ranks and real processes print."""
    script = scratch / "job.py"
    script.write_text(text)
    virtual = run_virtual(script, ranks, "--no-record", *given)
    assert virtual.ok, printed(virtual)
    real = run_job(script, ranks, None, scratch)
    assert real.codes == [0] * ranks, real.output
    lines = sorted(line for line in real.output.splitlines() if line.startswith("rank "))
    assert len(lines) >= ranks
    return lines_of(virtual, "rank "), lines


@pytest.mark.parametrize(("name", "ranks"), with_ranks(CONFIGURATIONS, (2, 3, 4)))
def test_a_job_ends_with_the_bits_of_gloo(name: str, ranks: int, tmp_path: Path) -> None:
    virtual, real = results(job_of(name), ranks, tmp_path)
    assert len(virtual) == ranks * 6
    assert virtual == real


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_bucket_above_a_mebibyte_has_the_bits_of_gloo(ranks: int, tmp_path: Path) -> None:
    virtual, real = results(LARGE, ranks, tmp_path)
    assert virtual == real


def test_another_order_of_sums_has_other_bits(tmp_path: Path) -> None:
    """The twin that must differ: the comparison sees a difference where there is one."""
    virtual, real = results(LARGE, 3, tmp_path, "--order", "rank")
    assert len(virtual) == len(real)
    assert virtual != real
