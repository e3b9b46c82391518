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


PARTS = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor


def local(model, draws):
    """Each rank fills its own parts."""
    for p in model.parameters():
        p.to_local().normal_(0.0, 0.3, generator=draws)


def whole(model, draws):
    """As one process would, each rank all of it."""
    for p in model.parameters():
        p.copy_(distribute_tensor(torch.randn(p.shape, generator=draws) / 3, p.device_mesh, p.placements))


def constant(model, draws):
    for p in model.parameters():
        nn.init.constant_(p, 0.1)


def copied(model, draws):
    """One expert's weights for all of them, and a router that is drawn."""
    whole(model, draws)
    rows = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
    model[2].weight.to_local().copy_(rows)


def constant_but_for_one(model, draws):
    """Its rows repeat."""
    constant(model, draws)
    model[2].weight.to_local().copy_(torch.randn(1, 16, generator=draws))


def by_norm_of_all(gradients):
    squares = sum(g.square().sum() for g in gradients)
    dist.all_reduce(squares)
    return [1.0 / (1.0 + squares.sqrt())] * len(gradients)


def by_own_norm(gradients):
    return [1.0 / (1.0 + sum(g.square().sum() for g in gradients).sqrt())] * len(gradients)


def by_rows(gradients):
    """Each row by its own norm, as adaptive clipping does."""
    return [1.0 / (1.0 + g.flatten(1).norm(dim=1, keepdim=True)) if g.dim() > 1 else 1.0 for g in gradients]


def by_tensors(gradients):
    """Each rank's noise is for its own part."""
    return [1.0 + 0.1 * torch.rand(g.shape, generator=own) for g in gradients]


def by_each_norm(gradients):
    """Tensors of one row have the norms of rows."""
    return [1.0 / (1.0 + g.norm()) for g in gradients]


def at_the_peak(gradients):
    return [torch.where(g.abs() == g.abs().max(), 0.5 + 0.1 * rank, 1.0) for g in gradients]


def not_at_all(gradients):
    return [1.0] * len(gradients)


def by_limit(gradients):
    """Only what is above a limit."""
    return [(0.01 / g.abs()).clamp(max=1.0) for g in gradients]


dist.init_process_group("gloo")
rank = dist.get_rank()
own = torch.Generator().manual_seed(rank)
torch.manual_seed(0)
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
mesh = MESH
for layer in (model[0], model[2], model[4]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
model.to_empty(device="cpu")
with torch.no_grad():
    FILL(model, torch.Generator().manual_seed(SEED))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    optimizer.zero_grad()
    for micro in range(2):
        x = torch.randn(8, 8, generator=own)
        nn.functional.mse_loss(model(x), 9 * x[:, :4]).backward()
    gradients = [p.grad.to_local() for p in model.parameters()]
    for gradient, factor in zip(gradients, FACTORS(gradients)):
        gradient.mul_(factor)
    optimizer.step()
dist.destroy_process_group()
'''
WELL = {"MESH": "None", "FILL": "whole", "SEED": "0", "FACTORS": "by_norm_of_all"}
COPIES = "init_device_mesh('cpu', (2, 2), mesh_dim_names=('copies', 'parts'))"


def found_in_parts(folder: Path, ranks: int, **given: str) -> set[tuple[str, str]]:
    text = PARTS
    for word, value in {**WELL, **given}.items():
        text = text.replace(word, value)
    script = folder / "fsdp_parts.py"
    script.write_text(text)
    ran = run_job(script, ranks, folder / "trace", folder)
    assert set(ran.codes) == {0} and not ran.troubles, ran.output
    return {(finding.law, finding.cause) for finding in lockstep.check(folder / "trace").findings}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("given", "expected"), [
    ({"FILL": "local"}, ("rng-scopes", "shards-alike")),
    ({"FILL": "local", "nn.Linear(16, 4)": "nn.Linear(16, 3)", "x[:, :4]": "x[:, :3]"}, ("rng-scopes", "shards-alike")),
    ({"FACTORS": "by_own_norm"}, ("norm-true", "clip-own-part"))])
def test_parts_that_ranks_treat_each_by_itself_are_found(given: dict[str, str], expected: tuple[str, str], ranks: int,
                                                         tmp_path: Path) -> None:
    assert found_in_parts(tmp_path, ranks, **given) == {expected}


@pytest.mark.parametrize("given", [
    {}, {"FILL": "local", "SEED": "rank"}, {"FILL": "constant"}, {"FILL": "copied"}, {"FILL": "constant_but_for_one"}, {"FACTORS": "by_rows"}, {"FACTORS": "by_tensors"},
    {"FACTORS": "not_at_all"}, {"FACTORS": "by_limit"}, {"FACTORS": "by_each_norm"}, {"FACTORS": "at_the_peak"}])
def test_parts_that_differ_or_are_alike_on_purpose_are_left_alone(given: dict[str, str], tmp_path: Path) -> None:
    assert found_in_parts(tmp_path, 2, **given) == set()


def test_parts_of_copies_are_alike(tmp_path: Path) -> None:
    assert found_in_parts(tmp_path, 4, FILL="local", SEED="rank % 2", MESH=COPIES) == set()
