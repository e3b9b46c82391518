"""Jobs that hang for the reasons people report: each ends at once in a verdict with who is missing, both lines and all stacks."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from virtual_job import printed, run_virtual

HEAD = '''
import os, signal, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)

def trainer(*layers):
    model = DDP(nn.Sequential(nn.Linear(4, 4), *layers, nn.Linear(4, 1)))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)

model, optimizer = trainer()

def step(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''


@dataclass(frozen=True)
class Hang:
    """A program after HEAD for three ranks. Marked lines (# HERE) are in the verdict."""

    body: str
    missing: tuple[int, ...] = ()  # Ranks that some other waits for.
    outcome: str = "deadlock"
    says: str = ""


HANGS = {
    "a metric on rank 0 alone": Hang('''
step(model(torch.ones(2, 4)).sum())
if rank == 0:
    dist.all_reduce(torch.ones(1))  # HERE
''', (1, 2)),
    "a barrier in the save of rank 0": Hang('''
def save():
    if rank == 0:
        dist.barrier()
        torch.ones(3).sum()
    dist.barrier()  # HERE
save()
''', (1, 2)),
    "two calls in another order": Hang('''
x, rows = torch.ones(3), [torch.empty(3) for _ in range(world)]
if rank == 1:
    dist.all_gather(rows, x)  # HERE
    dist.all_reduce(x)
else:
    dist.all_reduce(x)  # HERE
    dist.all_gather(rows, x)
''', outcome="failed", says="mismatch"),
    "another number of elements": Hang('''
if rank == 2:
    dist.all_reduce(torch.ones(200))  # HERE
else:
    dist.all_reduce(torch.ones(100))  # HERE
''', outcome="failed", says="mismatch"),
    "another element type": Hang('''
if rank == 1:
    dist.all_reduce(torch.ones(8, dtype=torch.bfloat16))  # HERE
else:
    dist.all_reduce(torch.ones(8))  # HERE
''', outcome="failed", says="mismatch"),
    "another root": Hang('''
if rank == 1:
    dist.broadcast(torch.ones(8), src=1)  # HERE
else:
    dist.broadcast(torch.ones(8), src=0)  # HERE
''', outcome="failed", says="mismatch"),
    "two communicators in opposite orders": Hang('''
first, second = dist.new_group(), dist.new_group()
if rank == 0:
    dist.all_reduce(torch.ones(1), group=first)  # HERE
    dist.all_reduce(torch.ones(1), group=second)
else:
    dist.all_reduce(torch.ones(1), group=second)  # HERE
    dist.all_reduce(torch.ones(1), group=first)
''', (0, 1, 2), says="cycle: rank 0 -> rank 1 -> rank 0"),
    "a loss without a graph": Hang('''
loss = model(torch.ones(2, 4)).sum()
if rank == 1:
    loss = torch.zeros((), requires_grad=True) * 0.0
step(loss)
''', (1,), says="backward"),
    "a bad batch that one rank skips": Hang('''
for number in range(3):
    loss = model(torch.ones(2, 4)).sum()
    if rank == 2 and number == 2:
        loss = loss * float("nan")
    if torch.isnan(loss):
        continue
    step(loss)
''', (2,), says="backward"),
    "an early stop of one rank": Hang('''
for epoch in range(4):
    step(model(torch.ones(2, 4)).sum())
    if rank == 0 and epoch == 2:
        break
dist.barrier() if rank else None
''', (0,)),
    "a checkpoint that two ranks take for the best": Hang('''
step(model(torch.ones(2, 4)).sum())
validation = [0.3, 0.2, 0.4][rank]
if validation < 0.35:
    dist.barrier()  # HERE
''', (2,)),
    "shards of uneven length": Hang('''
for _ in range([3, 3, 2][rank]):
    step(model(torch.ones(2, 4)).sum())
''', (2,), says="backward"),
    "a validation of rank 0 by the wrapper": Hang('''
model, optimizer = trainer(nn.BatchNorm1d(4))
step(model(torch.randn(3, 4)).sum())
if rank == 0:
    model(torch.randn(3, 4))  # HERE
dist.barrier()  # HERE
''', outcome="failed", says="broadcast"),
    "a signal that stops one rank": Hang('''
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
for number in range(4):
    if rank == 1 and number == 2:
        os.kill(os.getpid(), signal.SIGTERM)
    if stop:
        break
    step(model(torch.ones(2, 4)).sum())
''', (1,), says="backward"),
    "another version of the script on one rank": Hang('''
step(model(torch.ones(2, 4)).sum())
if rank == 2:
    dist.reduce(torch.ones(1), dst=0)  # HERE
dist.barrier()  # HERE
''', outcome="failed", says="mismatch"),
    "an error that one rank swallows": Hang('''
for number in range(3):
    try:
        if rank == 0 and number == 2:
            raise OSError("a file that cannot be read")
        step(model(torch.ones(2, 4)).sum())
    except OSError:
        pass
''', (0,), says="backward"),
    "a message with another tag": Hang('''
if rank == 0:
    dist.recv(torch.ones(1), 1, tag=7)  # HERE
if rank == 1:
    dist.send(torch.ones(1), 0, tag=8)  # HERE
''', (0, 1), says="cycle: rank 0 -> rank 1 -> rank 0"),
}
# Late, and not gone: what a verdict must not say.
LATE = '''
if rank == 0:
    time.sleep(40 * 60)
step(model(torch.ones(2, 4)).sum())
dist.barrier()
'''
SECOND_NS = 10**9


@pytest.mark.parametrize("name", HANGS)
def test_a_hang_ends_in_a_verdict(name: str, tmp_path: Path) -> None:
    hang = HANGS[name]
    script = tmp_path / "job.py"
    script.write_text(HEAD + hang.body)
    outcome = run_virtual(script, 3, "--no-record")
    found = outcome.found
    said = found["error"] + found["wait_for"] + "\n".join(found["stacks"]) + printed(outcome)
    assert found["outcome"] == hang.outcome, said
    assert tuple(found["missing"]) == hang.missing, said
    assert hang.says in said
    marked = [number for number, line in enumerate(script.read_text().splitlines(), 1) if "# HERE" in line]
    for line in marked:
        assert f"job.py:{line}" in said, f"line {line}\n{said}"
    assert found["now_ns"] < SECOND_NS, "no timeout had to pass"
    if hang.outcome == "deadlock":
        waiting = [rank for rank, end in enumerate(found["ends"]) if end["outcome"] == "stuck"]
        assert waiting and set(waiting) | set(hang.missing) == {0, 1, 2} or "cycle" in hang.says
        assert all("job.py:" in found["stacks"][rank] for rank in waiting), found["stacks"]


def test_a_late_rank_is_not_missing(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(HEAD + LATE)
    outcome = run_virtual(script, 3, "--no-record")
    assert outcome.ok, outcome.found["wait_for"] + printed(outcome)
    assert outcome.found["now_ns"] >= 40 * 60 * SECOND_NS


def test_a_rank_that_sleeps_outside_for_too_long_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    # Something outside might wake it: without a limit it is waited for.
    script.write_text(HEAD + "if rank == 1:\n    while True: signal.pause()\ndist.barrier()\n")
    outcome = run_virtual(script, 3, "--no-record", "--wall-limit", "1")
    assert outcome.found["outcome"] == "deadlock", printed(outcome)
    assert outcome.found["missing"] == [1], printed(outcome)
