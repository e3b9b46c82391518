"""Scripts for GPUs run unedited on the CPU: what they compute is what the same script computes there."""
from __future__ import annotations

from pathlib import Path

import pytest
from virtual_job import lines_of, printed, run_virtual

AS_CUDA = ("--no-record", "--device", "cpu-as-cuda")
HEAD = '''
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
device = torch.device("cuda", local_rank)
dist.init_process_group("nccl", device_id=device)
rank, world = dist.get_rank(), dist.get_world_size()
'''
SCRIPTS = {
    "a tutorial": '''
assert torch.cuda.is_available() and torch.cuda.device_count() == world and torch.cuda.current_device() == rank
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
model = DDP(nn.Linear(8, 2).cuda(local_rank), device_ids=[local_rank], output_device=local_rank)
x = torch.randn(4, 8, device=device)
y = torch.zeros(4, 2).to(local_rank, non_blocking=True)
nn.functional.mse_loss(model(x), y).backward()
dist.barrier(device_ids=[local_rank])
torch.cuda.synchronize()
print("gradient", rank, model.module.weight.grad.sum().item())
''',
    "mixed precision": '''
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
torch.manual_seed(0)
data = TensorDataset(torch.randn(16, 8), torch.randn(16, 1))
loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data), pin_memory=True, num_workers=1)
model = DDP(nn.Linear(8, 1).to(device), device_ids=[local_rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x.cuda(non_blocking=True)), y.to("cuda", non_blocking=True))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
if rank == 0:
    torch.save(model.state_dict(), "model.pt")
dist.barrier()
model.load_state_dict(torch.load("model.pt", map_location={"cuda:0": f"cuda:{local_rank}"}))
model.load_state_dict(torch.load("model.pt", map_location=device))
''',
    "streams and events": '''
side = torch.cuda.Stream()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    x = torch.ones(4, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    x.record_stream(side)
end.record(side)
torch.cuda.current_stream().wait_event(end)
work.wait()
assert x.tolist() == [world] * 4 and begin.elapsed_time(end) == 0.0
with torch.cuda.device(0), torch.cuda.nvtx.range("part"):
    assert torch.cuda.get_device_properties(0).total_memory > 0 and torch.cuda.memory_allocated() == 0
''',
    "sharded parameters": '''
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cuda", (world,))
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).cuda()
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
model(torch.randn(2, 8, device="cuda")).sum().backward()
''',
    "objects": '''
rows = [None] * world
dist.all_gather_object(rows, {"rank": rank, "x": torch.ones(1, device=device)})
assert [row["rank"] for row in rows] == list(range(world))
words = ["a", {"b": 1}] if rank == 0 else [None, None]
dist.broadcast_object_list(words, src=0, device=device)
assert words == ["a", {"b": 1}]
''',
}


def write(folder: Path, text: str) -> Path:
    script = folder / "job.py"
    script.write_text(text)
    return script


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_for_gpus_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run_virtual(write(tmp_path, HEAD + SCRIPTS[name]), 2, *AS_CUDA)
    assert outcome.ok, outcome.found["wait_for"] + printed(outcome)


def test_it_computes_what_the_cpu_computes(tmp_path: Path) -> None:
    text = HEAD + SCRIPTS["a tutorial"]
    pretended = lines_of(run_virtual(write(tmp_path, text), 2, *AS_CUDA), "gradient")
    for before, after in (('"nccl", device_id=device', '"gloo"'), ("assert torch.cuda.is_available", "torch.cuda.is_available"),
                          (".cuda(local_rank)", ""), (".to(local_rank, non_blocking=True)", ""),
                          (", device=device)", ")"), ("device_ids=[local_rank], output_device=local_rank", ""),
                          ("device_ids=[local_rank]", ""), ("torch.cuda.set_device(local_rank)\n", ""),
                          ("torch.cuda.manual_seed_all(0)\n", ""), ("torch.cuda.synchronize()\n", "")):
        assert before in text, before
        text = text.replace(before, after)
    text = "\n".join(line for line in text.splitlines() if "is_available" not in line)
    plain = lines_of(run_virtual(write(tmp_path, text), 2, "--no-record"), "gradient")
    assert len(plain) == 2
    assert pretended == plain


def test_without_it_the_script_fails_as_on_any_machine_without_a_gpu(tmp_path: Path) -> None:
    outcome = run_virtual(write(tmp_path, HEAD + SCRIPTS["a tutorial"]), 2, "--no-record")
    assert outcome.found["outcome"] == "failed"


@pytest.mark.parametrize(("text", "says"), [
    ("torch.cuda.CUDAGraph()\n", "torch.cuda.CUDAGraph is not simulated"),
    ("nn.DataParallel(nn.Linear(2, 2))\n", "torch.nn.DataParallel is not simulated"),
    ("from torch.utils.cpp_extension import CUDAExtension\nCUDAExtension('k', ['k.cu'])\n", "CUDAExtension is not simulated")])
def test_what_needs_a_gpu_is_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    outcome = run_virtual(write(tmp_path, HEAD + text), 2, *AS_CUDA)
    assert outcome.found["outcome"] == "failed"
    assert says in printed(outcome)
