"""Schedules of real scripts: what does not depend on them is equal in all, and what does is found and repeated."""
from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lockstep.virtual import launch, options
from lockstep.virtual.exploring import explore
from lockstep.virtual.shrinking import shrink
from virtual_job import SCRIPTS, lines_of, prepare, printed, run_virtual

HEAD = '''
import os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
store = dist.distributed_c10d._get_default_store()
'''
MODES = ((), (), ("--serial", "--strategy", "run-to-block"), ("--serial", "--strategy", "pct:depth=3"))


def require_one_digest(tmp_path: Path, n_seeds: int) -> None:
    digests, schedules = set(), set()
    for number, mode in enumerate([*MODES, *(("--serial", "--seed", str(seed)) for seed in range(n_seeds))]):
        trace = tmp_path / str(number)
        outcome = run_virtual(SCRIPTS / "clean.py", 2, *mode, trace=trace)
        assert outcome.ok, printed(outcome)
        events = launch.events_of(trace)
        assert sum(map(len, events.values())) > 100
        digests.add(hashlib.sha256(repr(sorted(events.items())).encode()).hexdigest())
        schedules.add(outcome.found["token"])
    assert len(digests) == 1
    assert len(schedules) > n_seeds // 2, "the seeds chose different schedules"


def test_parallel_serial_and_seeds_give_one_digest(tmp_path: Path) -> None:
    """Ranks that exchange collectives alone compute the same in every schedule."""
    require_one_digest(tmp_path, 4)


# Each fails under some schedules alone. The first rank of two to come is the one that counts.
RACES = {
    "through a file": '''
path = sys.argv[1] + f"/model{os.getppid()}-{os.environ['LOCKSTEP_RUN']}"
for _ in range(5 if rank == 0 else 3):
    store.check(["nothing"])
if rank == 1 and os.path.exists(path):
    raise RuntimeError("a checkpoint that is still written was read")
if rank == 0:
    open(path, "w").write("weights")
dist.barrier()
''',
    "through the order in which buckets complete": '''
torch.manual_seed(0)
buckets = [torch.full((2,), float(rank + k)) for k in range(2)]
pending = [(k, dist.all_reduce(bucket, async_op=True)) for k, bucket in enumerate(buckets)]
total = torch.ones(2)
while pending:
    for entry in list(pending):
        if entry[1].is_completed():
            total = total * 3 + buckets[entry[0]]
            pending.remove(entry)
rows = [torch.empty(2) for _ in range(world)]
dist.all_gather(rows, total)
if any(not torch.equal(row, rows[0]) for row in rows):
    raise RuntimeError("replicas differ")
''',
    "through two communicators": '''
a, b = dist.new_group(), dist.new_group()
if rank == 0:
    x = torch.zeros(1)
    order = (a, b) if dist.recv(x) == 1 else (b, a)
else:
    dist.send(torch.ones(1), 0)
    order = (a, b)
if rank == 0:
    dist.recv(x)
for group in order:
    dist.all_reduce(torch.ones(1), group=group)
''',
}
MENDED = {
    "through a file": ('if rank == 0:\n    open', 'dist.barrier()\nif rank == 0:\n    open'),
    "through the order in which buckets complete": ("if entry[1].is_completed():", "if entry is pending[0] and entry[1].wait():"),
    "through two communicators": ("dist.recv(x) == 1", "dist.recv(x) > 0"),
}


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_found_made_smaller_and_repeated_in_another_process(
        name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.py"
    script.write_text(HEAD + RACES[name])
    given = ["--nproc-per-node", "3", "--no-record", "--arena-mb", "256"]
    prepare()
    assert explore(options.parse([*given, "--explore", "12", str(script), str(tmp_path)])) == 1
    found = "".join(capsys.readouterr())
    counts = re.search(r"12 schedules: (.*)", found)
    assert counts is not None and " ok" in counts.group(1), "some schedules pass: " + found
    again = re.search(r"again: lockstep (torchrun --nproc-per-node .* --strategy @.*)", found)
    assert again is not None, found
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", *shlex.split(again.group(1))],
        text=True, capture_output=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert done.returncode == 1
    says = re.findall(r"RuntimeError: .*|DEADLOCK.*", found)[0]
    assert says in done.stdout + done.stderr


@pytest.mark.parametrize("name", RACES)
def test_the_mended_twin_passes_under_every_seed(name: str, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    before, after = MENDED[name]
    assert before in RACES[name]
    script.write_text(HEAD + RACES[name].replace(before, after))
    for seed in range(8):
        outcome = run_virtual(script, 3, "--no-record", "--serial", "--seed", str(seed), arguments=(str(tmp_path),))
        assert outcome.ok, printed(outcome) + outcome.found["wait_for"]


def test_a_seed_chooses_the_same_again(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(HEAD + "x = torch.zeros(1)\nif rank:\n    dist.send(x, 0)\nelse:\n"
                             "    print('came', [dist.recv(x) for _ in range(world - 1)])\n")

    def order(seed: int) -> str:
        return lines_of(run_virtual(script, 4, "--no-record", "--serial", "--seed", str(seed)), "came")[0]

    found = [order(seed) for seed in range(8)]
    assert len(set(found)) > 1
    assert [order(seed) for seed in range(3)] == found[:3]


def test_shrinking_keeps_what_a_failure_needs() -> None:
    needed = {"1-4=0", "t7=2"}
    tried = []

    def fails(schedule: str) -> bool:
        tried.append(schedule)
        return needed <= set(schedule.removeprefix("@").split(","))

    whole = "@" + ",".join([f"0-{k}=1" for k in range(9)] + ["1-4=0"] + [f"2-{k}=1" for k in range(5)] + ["t7=2"])
    small = shrink(whole, fails)
    assert set(small.schedule.removeprefix("@").split(",")) == needed
    assert (small.n_before, small.n_after, small.tries) == (16, 2, len(tried))
    assert shrink("random:seed=3", fails).schedule == "random:seed=3"
