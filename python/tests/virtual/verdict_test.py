"""A job that cannot go on ends in a verdict: who waits where, with every rank's stack."""
from __future__ import annotations

from pathlib import Path

import pytest
from virtual_job import SCRIPTS, printed, run_virtual

HEAD = '''
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(3)
'''
# Text of the program, and what the verdict must say: the lines are marked in the program.
HANGS = {
    "a rank skips a collective": ("if rank != 0:\n    dist.all_reduce(x)  # HERE\n", "all_reduce"),
    "two groups in opposite orders": (
        "a, b = dist.new_group([0, 1]), dist.new_group([0, 1])\n"
        "first, second = (a, b) if rank == 0 else (b, a)\n"
        "if rank < 2:\n    dist.all_reduce(x, group=first)  # HERE\n    dist.all_reduce(x, group=second)\n",
        "all_reduce"),
    "every rank receives first": ("dist.recv(x, (rank - 1) % world)  # HERE\ndist.send(x, (rank + 1) % world)\n",
                                 "recv"),
    "a key that no rank sets": (
        "store = dist.distributed_c10d._get_default_store()\nstore.get('never')  # HERE\n", "never"),
    "a barrier too many": ("dist.barrier()\nif rank == 1:\n    dist.barrier()  # HERE\n", "barrier"),
    "an asynchronous call that is never joined": (
        "if rank == 1:\n    work = dist.all_reduce(x, async_op=True)\n    work.wait()  # HERE\n", "all_reduce"),
    "a future of a call that is never joined": (
        "if rank == 1:\n    work = dist.all_reduce(x, async_op=True)\n"
        "    work.get_future().then(lambda f: f.value()).wait()  # HERE\n", "all_reduce"),
}
HEALTHY = (
    "dist.all_reduce(x)\n",
    "a, b = dist.new_group([0, 1]), dist.new_group([0, 1])\n"
    "works = []\n"
    "for group in (a, b) if rank == 0 else (b, a):\n"
    "    if rank < 2:\n        works.append(dist.all_reduce(x.clone(), group=group, async_op=True))\n"
    "for work in works:\n    work.wait()\n",
    "work = dist.isend(x, (rank + 1) % world)\ndist.recv(x, (rank - 1) % world)\nwork.wait()\n",
    "store = dist.distributed_c10d._get_default_store()\nstore.set(f'k{rank}', 'v')\n"
    "store.wait([f'k{other}' for other in range(world)])\n",
    "import time\nif rank == 1:\n    time.sleep(3600)\ndist.barrier()\n")


def write(folder: Path, body: str) -> tuple[Path, int]:
    """The script, and its line that is marked."""
    script = folder / "job.py"
    script.write_text(HEAD + body)
    marked = [number for number, line in enumerate(script.read_text().splitlines(), 1) if "# HERE" in line]
    return script, marked[0] if marked else 0


@pytest.mark.parametrize("name", HANGS)
def test_a_hang_is_named_with_its_line_and_stacks(name: str, tmp_path: Path) -> None:
    body, says = HANGS[name]
    script, line = write(tmp_path, body)
    outcome = run_virtual(script, 3, "--no-record")
    assert outcome.found["outcome"] == "deadlock", printed(outcome)
    assert says in outcome.found["wait_for"]
    waiting = [rank for rank, end in enumerate(outcome.found["ends"]) if end["outcome"] == "stuck"]
    assert waiting
    place = f"job.py:{line} in <module>"
    assert all(place in outcome.found["stacks"][rank] for rank in waiting), outcome.found["stacks"]


@pytest.mark.parametrize("body", HEALTHY)
@pytest.mark.parametrize("mode", [(), ("--serial", "--seed", "5")])
def test_a_healthy_job_gets_no_verdict(body: str, mode: tuple[str, ...], tmp_path: Path) -> None:
    script, _ = write(tmp_path, body)
    outcome = run_virtual(script, 3, "--no-record", *mode)
    assert outcome.found["outcome"] == "ok", outcome.found["wait_for"] + printed(outcome)
    assert [end["exit_code"] for end in outcome.found["ends"]] == [0, 0, 0]


def test_ranks_that_wait_in_a_backward_are_seen() -> None:
    """DDP waits for its buckets in C++, where no request for a stack is read."""
    outcome = run_virtual(SCRIPTS / "hang.py", 3, "--no-record")
    assert outcome.found["outcome"] == "deadlock"
    assert outcome.found["missing"] == [0]
    stacks = outcome.found["stacks"]
    assert all("in main: loss.backward()" in stacks[rank] for rank in (1, 2)), stacks


def test_calls_that_do_not_match_name_both_lines(tmp_path: Path) -> None:
    script, line = write(tmp_path, "if rank == 0:\n    dist.all_reduce(x)  # HERE\n"
                                   "else:\n    dist.broadcast(x, 0)\n")
    outcome = run_virtual(script, 2, "--no-record")
    assert outcome.found["outcome"] == "failed"
    text = outcome.found["error"] + printed(outcome)
    assert f"job.py:{line}" in text
    assert f"job.py:{line + 2}" in text
