"""Recording changes no bit of a job's result, over a matrix of what DDP offers."""
from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from forked import run_job

JOB = '''
import contextlib, hashlib
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.first, self.second = nn.Linear(16, 3), nn.Linear(16, 3)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x, both):
        hidden = torch.relu(self.norm(self.trunk(x)))
        if {dropout}:
            hidden = self.dropout(hidden)
        return self.first(hidden) + self.second(hidden) if both else self.first(hidden)

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(Net(), **{options}) if {wrapped} else Net()
if {hook}:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    model.register_comm_hook(None, fp16_compress_hook)
if {optimizer} == "AdamW":
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
elif {optimizer} == "Nesterov":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=0.1, nesterov=True)
else:
    from torch.distributed.optim import ZeroRedundancyOptimizer
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)

def loss_of(out):
    plain, mean, n = out.pow(2).mean(), out.mean(0), dist.get_world_size()
    if {exchange} == "sum in place":
        dist.all_reduce(mean)
        return plain + (mean / n - 1.0).square().sum() * (n / {accumulate})
    if {exchange} == "gather":
        rows = [torch.empty_like(out) for _ in range(n)]
        dist.all_gather(rows, out.contiguous())
        rows[dist.get_rank()] = out
        return plain + torch.cat(rows).sigmoid().mean() * n
    if {exchange} == "function":
        return plain + sum(part.sigmoid().mean() for part in gather(out.contiguous()))
    return plain

from torch.distributed.nn.functional import all_gather as gather
for batch in range(6):
    last = batch % {accumulate} == {accumulate} - 1
    with contextlib.nullcontext() if last or not {wrapped} else model.no_sync():
        with torch.autocast("cpu", torch.bfloat16, enabled={autocast}):
            loss = loss_of(model(torch.randn(4, 8), {both}))
        loss.backward()
    if last:
        for parameter in () if {wrapped} else model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        if {clipped}:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad(set_to_none={to_none})
state = [*model.state_dict().values(),
         *(v for s in optimizer.state.values() for v in s.values()),
         *(p.grad for p in model.parameters() if p.grad is not None)]
digest = hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in state)).hexdigest()
print("rank", dist.get_rank(), digest, flush=True)
'''

PLAIN = {"both": True, "accumulate": 1, "to_none": True, "options": {}, "hook": False, "wrapped": True,
         "exchange": "", "optimizer": "AdamW", "dropout": False, "autocast": False, "clipped": False}
CONFIGURATIONS = {
    "plain": {},
    "accumulation": {"accumulate": 2},
    "accumulation into zeros": {"accumulate": 3, "to_none": False},
    "find_unused": {"both": False, "options": {"find_unused_parameters": True}},
    "find_unused, accumulation": {
        "both": False, "accumulate": 2, "options": {"find_unused_parameters": True}},
    "bucket view": {"options": {"gradient_as_bucket_view": True}},
    "bucket view, accumulation": {"accumulate": 2, "options": {"gradient_as_bucket_view": True}},
    "tiny buckets": {"options": {"bucket_cap_mb": 1e-4}},
    "static graph": {"options": {"static_graph": True}},
    "static graph, bucket view": {
        "options": {"static_graph": True, "gradient_as_bucket_view": True}},
    "buffers kept": {"options": {"broadcast_buffers": False}},
    "fp16 hook": {"hook": True},
    "Nesterov": {"optimizer": "Nesterov"},
    "sharded optimizer": {"optimizer": "ZeRO"},
    "clipping, accumulation": {"clipped": True, "accumulate": 2},
    "autocast": {"autocast": True},
    "dropout": {"dropout": True},
    "find_unused, bucket view": {
        "both": False, "options": {"find_unused_parameters": True, "gradient_as_bucket_view": True}},
    "averaged by hand": {"wrapped": False},
    "averaged by hand, accumulation into zeros": {"wrapped": False, "accumulate": 3, "to_none": False},
    "sum inside the loss": {"exchange": "sum in place"},
    "sum inside the loss, accumulation": {"exchange": "sum in place", "accumulate": 3},
    "gather inside the loss": {"exchange": "gather"},
    "gather of autograd's inside the loss, accumulation": {"exchange": "function", "accumulate": 2},
}


@pytest.mark.parametrize(("name", "ranks"), list(itertools.product(CONFIGURATIONS, (2, 3))))
def test_recorded_and_unrecorded_runs_are_equal_in_every_bit(name: str, ranks: int, tmp_path: Path) -> None:
    job = JOB
    for key, value in (PLAIN | CONFIGURATIONS[name]).items():
        job = job.replace("{" + key + "}", repr(value))
    script = tmp_path / "job.py"
    script.write_text(job)
    recorded = run_job(script, ranks, tmp_path / "trace", tmp_path)
    plain = run_job(script, ranks, None, tmp_path)
    assert recorded.codes == plain.codes == [0] * ranks, recorded.output + plain.output
    assert recorded.troubles == []
    assert all('"kind":"wrap"' in path.read_text() for path in (tmp_path / "trace").glob("*.jsonl"))
    exchanged = any('"kind":"exchange"' in path.read_text() for path in (tmp_path / "trace").glob("*.jsonl"))
    assert exchanged == bool((PLAIN | CONFIGURATIONS[name])["exchange"])
    results = [sorted(line for line in ran.output.splitlines() if line.startswith("rank "))
               for ran in (recorded, plain)]
    assert len(results[0]) == ranks
    assert results[0] == results[1]
