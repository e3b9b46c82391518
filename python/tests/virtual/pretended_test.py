"""Scripts for GPUs run unedited on the CPU: what they compute is what the same script computes there."""
from __future__ import annotations

from pathlib import Path

import pytest
from lockstep.command_line import Usage
from lockstep.virtual import launch, options
from spawning_test import run_alone
from virtual_job import ARENA, lines_of, prepare, printed, run_virtual, write

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


# GPUs of the node are counted before there is a rank.
COUNTS_GPUS = '''
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

def train(rank, world):
    assert torch.cuda.device_count() == world and torch.cuda.current_device() == 0
    torch.cuda.set_device(rank)
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29444")
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model = DDP(torch.nn.Linear(4, 1).cuda(rank), device_ids=[rank])
    model(torch.ones(2, 4, device=f"cuda:{rank}")).sum().backward()
    assert torch.cuda.current_device() == rank and model.module.weight.grad.tolist() == [[2.0] * 4]
    print("trained")
    dist.destroy_process_group()

if __name__ == "__main__":
    world = torch.cuda.device_count()
    assert torch.cuda.is_available() and torch.ones(2, device="cuda").sum() == 2
    if sys.argv[1:]:
        context = mp.get_context(sys.argv[1])
        processes = [context.Process(target=train, args=(rank, world)) for rank in range(world)]
        for each in processes:
            each.start()
        for each in processes:
            each.join()
    else:
        mp.spawn(train, args=(world,), nprocs=world)
'''
# Two ranks with parts of a batch that are not equally large against one process with all of it. Weights and gradients of a
# normalised layer are sums of 96 numbers below 8: their rounding is below 96 * 8 * 2**-52.
SYNC_BATCH_NORM = '''
import copy
bound = 96 * 8 * 2.0 ** -52
for norm, shape in ((nn.BatchNorm1d, (6, 3)), (nn.BatchNorm2d, (6, 3, 4, 4)), (nn.BatchNorm3d, (6, 3, 2, 2, 4))):
    for affine in (True, False):
        torch.manual_seed(3)
        x, dy = torch.randn(shape, dtype=torch.float64) * 2 + 1, torch.randn(shape, dtype=torch.float64)
        one = norm(3, affine=affine, momentum=0.25).double()
        if affine:
            nn.init.uniform_(one.weight), nn.init.uniform_(one.bias)
        several = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(one)).cuda()
        here = slice(0, 2) if rank == 0 else slice(2, 6)
        whole, part = x.clone().requires_grad_(), x[here].clone().requires_grad_()
        y, mine = one(whole), several(part)
        y.backward(dy), mine.backward(dy[here])
        pairs = [(y[here], mine), (whole.grad[here], part.grad), (one.running_mean, several.running_mean),
                 (one.running_var, several.running_var)]
        for name, parameter in several.named_parameters():
            dist.all_reduce(parameter.grad)
            pairs.append((one.get_parameter(name).grad, parameter.grad))
        for wanted, found in pairs:
            assert (wanted - found).abs().max() <= bound, (norm, affine, wanted, found)
        assert several.num_batches_tracked == 1
        several.eval(), one.eval()
        assert (several(x[here]) - one(x[here])).abs().max() <= bound
model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))).cuda(), device_ids=[local_rank])
with torch.autocast("cuda"):
    out = model(torch.randn(4, 3).cuda())
assert out.dtype == torch.float16
out.sum().backward()
'''
# Sums of small whole numbers are exact in float16, in whatever order.
HALF_CONVOLUTIONS = '''
def whole(*shape):
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(1)).float()

for function, weight in ((nn.functional.conv2d, whole(4, 2, 3, 3)), (nn.functional.conv_transpose2d, whole(2, 4, 3, 3))):
    x, bias = whole(2, 2, 5, 5), whole(4)
    found = []
    for how in ("exact", "autocast", "half"):
        leaves = [each.clone().to(torch.float16 if how == "half" else torch.float32).requires_grad_() for each in (x, weight, bias)]
        with torch.autocast("cuda", enabled=how == "autocast"):
            y = function(leaves[0], leaves[1], bias=leaves[2], padding=1)
        assert y.dtype == (torch.float32 if how == "exact" else torch.float16), how
        y.sum().backward()
        assert all(each.grad.dtype == each.dtype for each in leaves)
        found.append([y.float(), *(each.grad.float() for each in leaves)])
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(*found))
third = torch.full((1, 1, 1, 1), 1 / 3)
with torch.autocast("cuda"):
    assert nn.functional.conv2d(third.bfloat16(), torch.ones(1, 1, 1, 1)).dtype == torch.float16

from torch.utils._python_dispatch import TorchDispatchMode
computed = set()

class Computed(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "convolution" in str(function):
            computed.add((str(function).split(".")[1], args[0].dtype))
        return function(*args, **(kwargs or {}))

layer = nn.Conv2d(1, 1, 1).cuda()
with Computed():
    with torch.autocast("cuda"):
        y = layer(torch.ones(1, 1, 2, 2, device="cuda"))
    y.sum().backward()
assert computed == {("convolution", torch.float32), ("convolution_backward", torch.float32)}, computed
with torch.autocast("cuda"):
    assert nn.functional.conv2d(third, torch.ones(1, 1, 1, 1)).item() == third.half().item() != third.item()
with torch.autocast("cuda", dtype=torch.bfloat16):
    assert nn.functional.conv2d(third, torch.ones(1, 1, 1, 1)).dtype == torch.bfloat16
'''
IN_A_BACKWARD = '''
class Ones(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad + torch.ones(2, device="cuda").to(device).cuda()

x = torch.zeros(2, device=device, requires_grad=True)
x.register_hook(lambda grad: grad.to("cuda") * 3)
y = Ones.apply(x)
y.backward(torch.tensor([1.0, 2.0]).cuda(), retain_graph=True)
y.backward(gradient=torch.tensor([1.0, 2.0]).cuda(), inputs=[x])
torch.autograd.backward(y, torch.tensor([1.0, 2.0]).cuda(), retain_graph=True)
assert x.grad.tolist() == [18.0, 27.0]
assert torch.autograd.grad(y, x, torch.tensor([1.0, 2.0]).cuda())[0].tolist() == [6.0, 9.0]
'''
OLDER = '''
x = torch.cuda.FloatTensor([1.0, 2.0])
assert isinstance(x, torch.cuda.FloatTensor) and x.dtype == torch.float32 and isinstance(torch.ones(1).cuda(), torch.cuda.FloatTensor)
assert torch.cuda.ByteTensor(list(b"ab")).tolist() == [97, 98]
assert x.type(torch.cuda.LongTensor).dtype == x.type("torch.cuda.LongTensor").dtype == torch.int64
generator = torch.Generator(device="cuda").manual_seed(1)
assert isinstance(generator, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
assert torch.equal(torch.rand(2, generator=generator, device="cuda"), torch.rand(2, generator=torch.Generator().manual_seed(1)))
torch.set_default_device("cuda")
assert (torch.ones(2) + x).tolist() == [2.0, 3.0]
torch.set_default_device(device="cuda")
assert (torch.ones(2) + x).tolist() == [2.0, 3.0]
torch.set_default_device(None)
torch.set_default_tensor_type("torch.cuda.DoubleTensor")
assert torch.ones(2).dtype == torch.float64
torch.set_default_tensor_type("torch.cuda.FloatTensor")
torch.cuda.set_device(0)
with torch.cuda.device(1):
    assert torch.cuda.current_device() == 1
with torch.cuda.device(None):
    assert torch.cuda.current_device() == 0
try:
    torch.cuda.device(2)
except RuntimeError as error:
    assert "invalid device ordinal" in str(error)
assert torch.cuda.initial_seed() == torch.initial_seed() and torch.cuda.temperature() == 0
torch.cuda.memory._record_memory_history(max_entries=3)
assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream) and not isinstance(torch.cuda.Event(), torch.cuda.Stream)
'''
COMPILED = '''
model = DDP(torch.compile(nn.Linear(4, 1).cuda()), device_ids=[local_rank])
assert "module._orig_mod.weight" in model.state_dict()
whole = torch.compile(DDP(nn.Linear(4, 1).cuda(), device_ids=[local_rank]))

@torch.compile(fullgraph=True)
def twice(x):
    return 2 * x

for each in (model, whole):
    twice(each(torch.ones(2, 4, device="cuda"))).sum().backward()
assert model.module.weight.grad.tolist() == whole.module.weight.grad.tolist() == [[4.0] * 4]
'''
SCRIPTS["compiled"] = COMPILED
SCRIPTS["types and defaults of older scripts"] = OLDER
SCRIPTS["devices in a backward"] = IN_A_BACKWARD
SCRIPTS["SyncBatchNorm"] = SYNC_BATCH_NORM
SCRIPTS["convolutions in float16"] = HALF_CONVOLUTIONS


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_for_gpus_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run_virtual(write(tmp_path, HEAD + SCRIPTS[name]), 2, *AS_CUDA)
    assert outcome.ok, outcome.found["wait_for"] + printed(outcome)


def test_an_emulated_gpu_matches_the_cpu_bitwise(tmp_path: Path) -> None:
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


def test_a_script_for_gpus_fails_without_the_emulation(tmp_path: Path) -> None:
    outcome = run_virtual(write(tmp_path, HEAD + SCRIPTS["a tutorial"]), 2, "--no-record")
    assert outcome.found["outcome"] == "failed"
    assert "No CUDA GPUs are available" in outcome.found["error"] and "--device cpu-as-cuda" in outcome.found["error"]


@pytest.mark.parametrize(("device", "start"), [
    ("cuda", "train(0)"), ("cpu", "mp.spawn(train, nprocs=1)"),
    *(("cpu", f"p = mp.get_context('{how}').Process(target=train, args=(0,)); p.start(); p.join()") for how in ("fork", "spawn"))])
def test_a_script_that_asks_for_a_gpu_learns_how_to_have_one(device: str, start: str, tmp_path: Path,
                                                             capfd: pytest.CaptureFixture[str]) -> None:
    script = write(tmp_path, f"""
import torch, torch.multiprocessing as mp

def train(rank):
    torch.ones(1).cuda()

if __name__ == "__main__":
    torch.ones(1, device="{device}")
    {start}
""")
    prepare()
    try:
        launch.run(options.parse([*ARENA, "--no-record", str(script)], alone=True), 0, "", quiet=False)
    except (Usage, launch.ScriptFailed):
        pass  # A script that started no ranks.
    said = capfd.readouterr()
    assert "No CUDA GPUs are available" in said.err and "--device cpu-as-cuda" in said.err, said


@pytest.mark.parametrize("call", [
    "torch.cuda.set_device(3)", "torch.ones(1).cuda(3)", "torch.ones(1).cuda(device='cuda:3')", "torch.ones(1).to(3)",
    "torch.ones(1).to('cuda:3')", "torch.ones(1, device=3)", "torch.ones(1, device='cuda:3')", "nn.Linear(2, 2).cuda(3)",
    "nn.Linear(2, 2).to(3)", "nn.Linear(2, 2).to(device='cuda:3')", "nn.Linear(2, 2, device='cuda:3')"])
def test_a_gpu_that_the_node_does_not_have_is_refused_as_pytorch_does(call: str, tmp_path: Path) -> None:
    text = HEAD + f"""
{call.replace("3", "2")}
try:
    {call}
except RuntimeError as error:
    assert "invalid device ordinal" in str(error) and "cuda:3" in str(error) and "3 GPUs" in str(error), error
else:
    raise SystemExit("accepted")
"""
    outcome = run_virtual(write(tmp_path, text), 2, "--no-record", "--device", "cpu-as-cuda:3")
    assert outcome.ok, printed(outcome)


def test_a_global_rank_that_is_taken_for_a_local_one_fails_on_the_second_node(tmp_path: Path) -> None:
    script = write(tmp_path, HEAD + "torch.cuda.set_device(dist.get_rank())\n")
    outcome = run_virtual(script, 2, "--nnodes", "2", *AS_CUDA)
    assert "invalid device ordinal" in outcome.found["error"], printed(outcome)
    assert outcome.found["first_failure"] in (2, 3)
    assert run_virtual(script, 4, *AS_CUDA).ok, "one node has all of them"


@pytest.mark.parametrize(("given", "ranks"), [("cpu-as-cuda", 2), ("cpu-as-cuda:3", 3)])
@pytest.mark.parametrize("method", ["", "fork", "spawn"])
def test_a_script_that_starts_a_rank_per_gpu_sees_as_many_as_were_asked_for(given: str, ranks: int, method: str,
                                                                            tmp_path: Path) -> None:
    outcome = run_alone(write(tmp_path, COUNTS_GPUS), "--device", given, arguments=(method,) if method else ())
    assert outcome.ok and outcome.report is not None and outcome.report.ok, printed(outcome)
    assert len(outcome.found["ends"]) == ranks
    assert printed(outcome).count("trained") == ranks


@pytest.mark.parametrize(("text", "says"), [
    ("torch.cuda.CUDAGraph()\n", "torch.cuda.CUDAGraph is not simulated"),
    ("nn.DataParallel(nn.Linear(2, 2))\n", "torch.nn.DataParallel is not simulated"),
    ("from torch.utils.cpp_extension import CUDAExtension\nCUDAExtension('k', ['k.cu'])\n", "CUDAExtension is not simulated")])
def test_what_needs_a_gpu_is_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    outcome = run_virtual(write(tmp_path, HEAD + text), 2, *AS_CUDA)
    assert outcome.found["outcome"] == "failed"
    assert says in printed(outcome)
