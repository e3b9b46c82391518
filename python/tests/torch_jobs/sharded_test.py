"""Models that fully_shard divides: what is compared where all ranks have a part, and nothing where only some have."""
from __future__ import annotations

import json
from pathlib import Path

import lockstep
import pytest
from forked import run_job
from reported import advised

JOB = '''
import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.full((8,), float(i)) + NOISE


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    numpy.random.seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.25), nn.Linear(16, 1))
    mesh = MESH
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    torch.manual_seed(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=BETAS)
    for x in LOADER:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


main()
'''
RANDOM = "[torch.randn(4, 8, generator=torch.Generator().manual_seed(4 * step + rank)) for step in range(4)]"
DIVIDED = "DataLoader(Noisy(), 2, sampler=DistributedSampler(Noisy()))"
HEALTHY = {"NOISE": "0.0", "MESH": "None", "SEED": "rank", "BETAS": "(0.9, 0.99)", "LOADER": RANDOM}


def findings(folder: Path, ranks: int, **given: str) -> list[tuple[str, str]]:
    """Law and cause of what is found in the job with these words."""
    text = JOB
    for word, value in {**HEALTHY, **given}.items():
        assert word in text
        text = text.replace(word, value)
    script = folder / "job.py"
    script.write_text(text)
    ran = run_job(script, ranks, folder / "trace", folder)
    assert set(ran.codes) == {0} and not ran.troubles, ran.output
    report = lockstep.check(folder / "trace")
    assert advised(report) == {"A-shared-out"}
    return [(finding.law, finding.cause) for finding in report.findings]


BROKEN = {
    "the same dropout": ({"SEED": "0"}, ("rng-scopes", "rng-same-dropout")),
    "the same dropout, replicated as well": (
        {"SEED": "0", "MESH": "init_device_mesh('cpu', (2, 2), mesh_dim_names=('copies', 'parts'))"},
        ("rng-scopes", "rng-same-dropout")),
    "other options on a rank": ({"BETAS": "(0.9, 0.99 if rank else 0.9)"}, ("optimizer-equal", "optimizer-options-differ")),
    "the same noise on samples": ({"LOADER": DIVIDED, "NOISE": "numpy.random.rand()"}, ("rng-scopes", "rng-same-dropout")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_ranks_must_not_share_is_found_where_all_have_a_part(name: str, tmp_path: Path) -> None:
    given, expected = BROKEN[name]
    assert findings(tmp_path, 4, **given) == [expected]


@pytest.mark.parametrize("loader", [RANDOM, DIVIDED])
def test_a_healthy_model_is_silent_and_its_options_are_written_at_each_step(loader: str, tmp_path: Path) -> None:
    assert findings(tmp_path, 2, LOADER=loader) == []
    lines = (tmp_path / "trace" / "a000.rank-00001.jsonl").read_text().splitlines()[1:]
    options = [event for event in map(json.loads, lines) if event["kind"] == "options"]
    assert [event["at"][4] for event in options] == [0, 1, 2, 3]
    assert options[0]["names"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert dict(zip(options[0]["options"], options[0]["values"]))["learning_rate"] == 0.01


def test_where_only_some_ranks_have_a_part_they_may_share_what_they_draw(tmp_path: Path) -> None:
    mesh = "init_device_mesh('cpu', (2, 2), mesh_dim_names=('data', 'model'))['data']"
    loader = "DataLoader(Noisy(), 2, sampler=DistributedSampler(Noisy(), 2, rank // 2))"
    assert findings(tmp_path, 4, MESH=mesh, SEED="0", BETAS="(0.9, 0.99 if rank else 0.9)", LOADER=loader,
                    NOISE="numpy.random.rand()") == []
