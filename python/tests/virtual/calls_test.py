"""Every kind of call of torch.distributed gives what its documentation says, in every mode."""
from __future__ import annotations

from pathlib import Path

import pytest
from virtual_job import printed, run_virtual

HEAD = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
group = dist.group.WORLD
'''
# Programs for three ranks, which assert what PyTorch documents.
CALLS = {
    "sum, product, min, max": '''
for op, wanted in ((dist.ReduceOp.SUM, 6), (dist.ReduceOp.PRODUCT, 6), (dist.ReduceOp.MIN, 1),
                   (dist.ReduceOp.MAX, 3), (dist.ReduceOp.BOR, 3), (dist.ReduceOp.BXOR, 0)):
    x = torch.full((5,), rank + 1)
    dist.all_reduce(x, op=op)
    assert x.tolist() == [wanted] * 5, (op, x)
x = torch.full((4,), float(rank))
dist.all_reduce(x, op=dist.ReduceOp.AVG)
assert x.tolist() == [1.0] * 4
''',
    "bits of floats are refused": '''
try:
    dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND)
except RuntimeError as error:
    assert "non-integral" in str(error)
else:
    raise AssertionError("no error")
''',
    "element types": '''
for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64):
    x = torch.full((3,), rank + 1, dtype=dtype)
    dist.all_reduce(x)
    assert x.tolist() == [6] * 3 and x.dtype is dtype
x = torch.tensor([rank == 1, False])
dist.all_reduce(x, op=dist.ReduceOp.MAX)
assert x.tolist() == [True, False]
z = torch.full((2,), complex(rank, 1))
dist.all_reduce(z)
assert z.tolist() == [complex(3, 3)] * 2
rows = [torch.empty(2, dtype=torch.complex128) for _ in range(world)]
dist.all_gather(rows, torch.full((2,), complex(rank, -rank), dtype=torch.complex128))
assert [row[0].item() for row in rows] == [complex(r, -r) for r in range(world)]
half = torch.full((3,), rank, dtype=torch.int16)
dist.broadcast(half, 2)
assert half.tolist() == [2, 2, 2]
''',
    "strided tensors": '''
base = torch.zeros(4, 6)
column = base[:, 1]
column += rank
dist.all_reduce(column)
assert base[:, 1].tolist() == [3.0] * 4 and base.sum() == 12
''',
    "gather and scatter": '''
rows = [torch.empty(2) for _ in range(world)] if rank == 1 else None
dist.gather(torch.full((2,), float(rank)), rows, dst=1)
assert rank != 1 or [row[0].item() for row in rows] == [0, 1, 2]
mine = torch.empty(1)
dist.scatter(mine, [torch.tensor([10.0 + r]) for r in range(world)] if rank == 2 else None, src=2)
assert mine.item() == 10 + rank
x = torch.full((2,), float(rank + 1))
dist.reduce(x, dst=1)
assert rank != 1 or x.tolist() == [6, 6]
''',
    "one tensor for all ranks": '''
whole = torch.empty(2 * world)
dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
assert whole.tolist() == [0, 0, 1, 1, 2, 2]
part = torch.empty(2)
dist.reduce_scatter_tensor(part, torch.arange(6.0) + rank)
assert part.tolist() == [3 * k + 3 for k in (2 * rank, 2 * rank + 1)]
out = torch.empty(1)
dist.reduce_scatter(out, [torch.tensor([float(k)]) for k in range(world)])
assert out.item() == 3 * rank
''',
    "all_to_all, even and uneven": '''
out = torch.empty(world)
dist.all_to_all_single(out, torch.arange(float(world)) + 10 * rank)
assert out.tolist() == [rank, 10 + rank, 20 + rank]
counts = [k + 1 for k in range(world)]
received = torch.empty(world * (rank + 1), 2)
given = torch.full((sum(counts), 2), float(rank))
dist.all_to_all_single(received, given, [rank + 1] * world, counts)
assert received[:, 0].tolist() == [float(r) for r in range(world) for _ in range(rank + 1)]
parts = [torch.empty(rank + 1) for _ in range(world)]
dist.all_to_all(parts, [torch.full((k + 1,), float(rank)) for k in range(world)])
assert [part[0].item() for part in parts] == [0, 1, 2]
''',
    "objects": '''
rows = [None] * world
dist.all_gather_object(rows, {"rank": rank, "text": "x" * rank})
assert [row["rank"] for row in rows] == [0, 1, 2]
some = [{"a": 1}, "b"] if rank == 0 else [None, None]
dist.broadcast_object_list(some, 0)
assert some == [{"a": 1}, "b"]
mine = [None]
dist.scatter_object_list(mine, [[r] for r in range(world)] if rank == 1 else [None] * world, src=1)
assert mine == [[rank]]
all_ = [None] * world if rank == 0 else None
dist.gather_object(rank * 2, all_, dst=0)
assert rank or all_ == [0, 2, 4]
''',
    "tags choose messages": '''
if rank == 0:
    works = [dist.isend(torch.tensor([float(tag)]), 1, tag=tag) for tag in (5, 6, 7)]
    [work.wait() for work in works]
if rank == 1:
    for tag in (7, 5, 6):
        x = torch.zeros(1)
        dist.recv(x, 0, tag=tag)
        assert x.item() == tag
''',
    "messages from any rank": '''
if rank == 0:
    seen = set()
    for _ in range(world - 1):
        x = torch.zeros(1)
        source = dist.recv(x)
        assert x.item() == source
        seen.add(source)
    assert seen == {1, 2}
else:
    dist.send(torch.tensor([float(rank)]), 0)
''',
    "a deferred call keeps what it was given": '''
x = torch.full((4,), float(rank))
y = torch.empty(0)
work = dist.all_reduce(x, async_op=True)
work.wait()
x.fill_(100.0)
first = torch.full((4,), float(rank))
sends = [dist.isend(first.clone(), other, tag=rank) for other in range(world) if other != rank]
for other in range(world):
    if other != rank:
        got = torch.empty(4)
        dist.recv(got, other, tag=other)
        assert got.tolist() == [float(other)] * 4
[work.wait() for work in sends]
''',
    "many calls at once have their own results": '''
tensors = [torch.full((3,), float(k * (rank + 1))) for k in range(40)]
works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
for k in reversed(range(40)):
    works[k].wait()
assert [tensor[0].item() for tensor in tensors] == [6.0 * k for k in range(40)]
''',
    "polling ends": '''
x = torch.ones(2)
work = dist.all_reduce(x, async_op=True)
while not work.is_completed():
    pass
assert x.tolist() == [3, 3]
''',
    "futures": '''
future = dist.all_reduce(torch.ones(4), async_op=True).get_future()
doubled = future.then(lambda f: f.value()[0] * 2)
assert doubled.wait().tolist() == [6.0] * 4
parts = [dist.all_reduce(torch.ones(1) * k, async_op=True).get_future() for k in range(3)]
values = torch.futures.wait_all(parts)
assert [value[0].item() for value in values] == [0, 3, 6]
''',
    "groups": '''
pair = dist.new_group([0, 2])
x = torch.ones(1)
if rank != 1:
    dist.all_reduce(x, group=pair)
    assert dist.get_rank(pair) == rank // 2 and dist.get_world_size(pair) == 2
assert x.item() == (1 if rank == 1 else 2)
a, b = dist.new_group(), dist.new_group()
p, q = torch.ones(2), torch.ones(2) * 2
calls = [(p, a), (q, b)] if rank % 2 else [(q, b), (p, a)]
[work.wait() for work in [dist.all_reduce(t, group=g, async_op=True) for t, g in calls]]
assert p[0].item() == 3 and q[0].item() == 6
dist.destroy_process_group(a)
dist.destroy_process_group()
dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
assert x.item() == 3
''',
    "calls as one": '''
tensors = [torch.ones(2) * k for k in range(4)]
with dist._coalescing_manager():
    for tensor in tensors:
        dist.all_reduce(tensor)
assert [tensor[0].item() for tensor in tensors] == [0, 3, 6, 9]
ops = [dist.P2POp(dist.isend, torch.ones(1) * rank, (rank + 1) % world)]
got = torch.zeros(1)
ops.append(dist.P2POp(dist.irecv, got, (rank - 1) % world))
[work.wait() for work in dist.batch_isend_irecv(ops)]
assert got.item() == (rank - 1) % world
''',
    "functional collectives": '''
import torch.distributed._functional_collectives as functional
assert functional.all_reduce(torch.ones(2), "sum", group).tolist() == [3, 3]
assert functional.all_gather_tensor(torch.full((1,), float(rank)), 0, group).tolist() == [0, 1, 2]
''',
    "sparse sums": '''
x = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (5,))
dist.all_reduce(x)
assert x.to_dense().tolist() == [1, 1, 1, 6, 0]
''',
    "store": '''
store = dist.distributed_c10d._get_default_store()
assert store.add("n", 2) >= 2
store.set(f"k{rank}", str(rank))
store.wait([f"k{r}" for r in range(world)])
assert store.get(f"k{(rank + 1) % world}") == str((rank + 1) % world).encode()
dist.barrier()
assert store.add("n", 0) == 6
assert store.check(["n"]) and not store.check(["absent"])
if rank == 0:
    store.append("text", "ab"), store.append("text", "cd")
    assert store.get("text") == b"abcd"
    assert store.compare_set("word", "", "one") == b"one"
    assert store.compare_set("word", "none", "two") == b"one"
    assert store.num_keys() > 4
    assert store.delete_key("word") and not store.delete_key("word")
''',
    "monitored_barrier": '''
dist.monitored_barrier()
dist.monitored_barrier()
import datetime
if rank != 2:
    try:
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=2))
    except RuntimeError as error:
        assert ("Rank 2 failed to pass monitoredBarrier in 2000 ms" if rank == 0 else "successfully reached") in str(error)
    else:
        raise AssertionError("no error")
''',
    "wrappers": '''
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

model = DDP(nn.Linear(8, 2))
with Join([model]):
    for _ in range(3 + rank):
        model(torch.randn(2, 8)).sum().backward()
model = DDP(nn.Linear(8, 2))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
model(torch.randn(2, 8)).sum().backward()
optimizer.step()
sharded = nn.Linear(6, 6)
fully_shard(sharded, mesh=init_device_mesh("cpu", (world,)))
sharded(torch.randn(2, 6)).sum().backward()
log = model._get_ddp_logging_data()
assert log["backend_name"] == "gloo" and "bucket_sizes" in log
''',
    "a join that divides by the ranks that are left": '''
model = DDP(nn.Linear(5, 5, bias=False))
with model.join(divide_by_initial_world_size=False):
    for _ in range(3 + 2 * (rank > 0)):
        model(torch.full((1, 5), 50.0)).sum().backward()
        assert abs(model.module.weight.grad.sum().item() - 1250) <= 1250 * 2.0 ** -20  # Divided by 3 and multiplied.
        model.zero_grad()
''',
    "communication hooks": '''
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
model = DDP(nn.Linear(64, 64))
model.register_comm_hook(None, default_hooks.fp16_compress_hook)
model(torch.ones(2, 64) * (rank + 1)).sum().backward()
assert torch.allclose(model.module.weight.grad, torch.tensor(4.0), rtol=1e-3)
model = DDP(nn.Linear(64, 64))
state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
for _ in range(4):
    model(torch.randn(2, 64)).sum().backward()
''',
    "loader workers": '''
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2)
total = sum(batch[0].sum() for batch in loader)
dist.all_reduce(total)
assert total.item() == 84
''',
}
MODES = {"parallel": (), "serial": ("--serial", "--seed", "3")}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_is_documented(name: str, mode: str, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(HEAD + CALLS[name])
    outcome = run_virtual(script, 3, "--no-record", *MODES[mode])
    assert outcome.found["outcome"] == "ok", outcome.found["wait_for"] + printed(outcome)


def test_a_wrong_result_would_be_noticed(tmp_path: Path) -> None:
    """The twin: a fault counts one contribution twice, and the program's own assertion fails."""
    script = tmp_path / "job.py"
    script.write_text(HEAD + CALLS["many calls at once have their own results"])
    outcome = run_virtual(script, 3, "--no-record", "--fault", "double:1:5")
    assert outcome.found["outcome"] == "failed", printed(outcome)
    assert "AssertionError" in printed(outcome)


def test_shapes_that_differ_have_the_text_of_ddp(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(HEAD + "DDP(nn.Linear(8, 2 + (rank == 1)))\n")
    outcome = run_virtual(script, 3, "--no-record")
    assert outcome.found["outcome"] == "failed"
    assert "appears not to match sizes of the same param in process 0" in printed(outcome)


# A sleep takes virtual time, in which the deadline of the others passes.
LATE = HEAD + '''
import datetime
import time
if rank == 2:
    time.sleep(4)
dist.monitored_barrier(timeout=datetime.timedelta(seconds=2))
'''


def test_a_rank_that_comes_too_late_to_a_monitored_barrier_was_late(tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text(LATE)
    outcome = run_virtual(script, 3)
    assert outcome.report is not None and not outcome.ok
    [finding] = outcome.report.law("progress").findings
    assert finding.cause == "slow-rank0-timeout", str(outcome.report)
    assert "timed out in barrier" in finding.message
