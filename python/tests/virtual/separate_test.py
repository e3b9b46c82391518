"""Ranks with an interpreter of their own: what depends on the order of sets of strings shows."""
from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from lockstep.virtual import launch, rank, separate
from virtual_job import SCRIPTS, lines_of, printed, run_virtual, write

# Parameters are made in the order of a set of strings: the ranks' differ under torchrun.
FROM_A_SET = '''
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
names = list({f"layer-{number}" for number in range(20)})
mine = torch.tensor([int(name[6:]) for name in names])
all_of_them = [torch.empty_like(mine) for _ in range(world)]
dist.all_gather(all_of_them, mine)
if rank == 0:
    print("alike", all(torch.equal(each, mine) for each in all_of_them))
print("order", rank, *names, flush=True)
print("flags", sys.flags.hash_randomization, len({os.getpid()}), __name__, sys.argv[1:])
'''


def test_the_order_of_a_set_differs_between_ranks_and_is_the_same_in_each_run(tmp_path: Path) -> None:
    script = write(tmp_path, FROM_A_SET)
    first, again = (run_virtual(script, 2, "--no-record", "--separate", "--seed", "3", arguments=("--a", "b")) for _ in range(2))
    assert first.ok, printed(first)
    assert lines_of(first, "alike") == ["alike False"]
    orders = [line.split(maxsplit=2)[2] for line in lines_of(first, "order")]
    assert len(set(orders)) == 2
    assert lines_of(first, "order") == lines_of(again, "order")
    assert lines_of(first, "flags") == ["flags 1 1 __main__ ['--a', 'b']"] * 2


def test_each_rank_attempt_and_seed_has_a_hash_seed_of_its_own() -> None:
    place = rank.Place(rank=0, world=9, local_rank=0, local_world=9, node=0, nodes=1, attempt=0, environment={})
    seeds = [separate._hash_seed(seed, replace(place, rank=number, attempt=attempt))
             for seed in range(4) for number in range(9) for attempt in range(3)]
    assert len(set(seeds)) == len(seeds)
    assert all(1 <= seed < 1 << 32 for seed in seeds), "0 would switch hash seeds off"


def test_forks_of_one_interpreter_share_the_order_of_a_set(tmp_path: Path) -> None:
    outcome = run_virtual(write(tmp_path, FROM_A_SET), 3, "--no-record")
    assert lines_of(outcome, "alike") == ["alike True"]


def without_test_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks of this process have its modules, and the recorder reads what a program's variables hold."""
    tests = str(SCRIPTS.parent)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(tests):
            monkeypatch.delitem(sys.modules, name)


def test_a_job_ends_in_the_same_state_whether_its_ranks_are_forked_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clean script trains with DDP and prints nothing of an order: the laws hold, and the events are equal."""
    without_test_modules(monkeypatch)
    events = []
    for mode in ((), ("--separate",)):
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_virtual(SCRIPTS / "clean.py", 2, *mode, trace=Path(folder) / "trace")
            assert outcome.ok, printed(outcome) + str(outcome.report)
            events.append(launch.events_of(Path(folder) / "trace"))
    assert sum(map(len, events[0].values())) > 100
    assert events[0] == events[1]


def test_a_failure_is_named_with_its_rank_and_the_traceback_begins_in_the_script(tmp_path: Path) -> None:
    script = write(tmp_path, "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
                             "if dist.get_rank() == 1:\n    raise ValueError('bad luck')\ndist.barrier()\n")
    outcome = run_virtual(script, 2, "--no-record", "--separate")
    assert outcome.found["outcome"] == "failed" and outcome.found["first_failure"] == 1
    assert "bad luck" in outcome.found["error"]
    assert "run_program" not in printed(outcome) and "Traceback" in printed(outcome)
