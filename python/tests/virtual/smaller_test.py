"""Jobs that fail are made smaller: faults, ranks and steps that the failure does not need are left out."""
from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lockstep.virtual import launch, options
from lockstep.virtual.exploring import kind_of
from lockstep.virtual.minimize import MOST_SEEDS, Failure, make_smaller
from virtual_job import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.virtual.options import Options


# -- the search alone, against rules that say which jobs fail
class Rule:
    """Fails where a rule says so, and remembers what was tried."""

    def __init__(self, fails: Callable[[Options, int], bool]) -> None:
        self.fails = fails
        self.tried: list[tuple[int, int, int, tuple[str, ...]]] = []

    def __call__(self, given: Options, seed: int) -> Failure | None:
        self.tried.append((given.ranks, given.steps, seed, given.faults))
        return Failure(given, seed, Any) if self.fails(given, seed) else None  # type: ignore[arg-type]


def job(*arguments: str, seed: int = 0) -> Failure:
    given = options.parse([*arguments, __file__])
    return Failure(given, seed, Any)  # type: ignore[arg-type]


def test_only_the_faults_that_the_failure_needs_are_left() -> None:
    needed = {"drop:1:4", "late:0:2"}
    rule = Rule(lambda given, _: needed <= set(given.faults))
    whole = job("--nproc-per-node", "2", "--steps", "1", *(
        word for fault in ("slow:0:1", "drop:1:4", "kill:1:9", "late:0:2", "double:0:3") for word in ("--fault", fault)))
    small = make_smaller(whole, rule, tries=40)
    assert small.failure.given.faults == ("drop:1:4", "late:0:2")
    assert "2 of 5 faults" in small.changes
    assert small.tries == len(rule.tried)


@pytest.mark.parametrize("least", [1, 2, 5, 7])
def test_the_first_number_of_ranks_that_fails_is_kept(least: int) -> None:
    rule = Rule(lambda given, _: given.ranks >= least)
    small = make_smaller(job("--nproc-per-node", "4", "--nnodes", "2", "--steps", "1"), rule, tries=40)
    given = small.failure.given
    assert (given.ranks, given.per_node, given.nodes) == (least, least, 1)
    assert small.changes == [f"{least} of 8 ranks"]


def test_ranks_that_all_are_needed_stay_as_they_were() -> None:
    whole = job("--nproc-per-node", "4", "--nnodes", "2", "--steps", "1")
    small = make_smaller(whole, Rule(lambda given, _: given.ranks == 8), tries=40)
    assert small.failure is whole
    assert small.changes == []


def test_a_serial_job_of_fewer_ranks_is_tried_with_several_seeds() -> None:
    rule = Rule(lambda given, seed: given.ranks == 4 or (given.ranks == 2 and seed == 7))
    small = make_smaller(job("--nproc-per-node", "4", "--serial", "--strategy", "@0-1=1", "--steps", "1", seed=5), rule, tries=40)
    assert (small.failure.given.ranks, small.failure.seed) == (2, 7)
    assert small.failure.given.strategy == "random", "a token belongs to its number of ranks"
    assert max(seed for ranks, _, seed, _ in rule.tried if ranks == 2) < 5 + MOST_SEEDS


@pytest.mark.parametrize("first", [1, 2, 3, 7, 8, 100])
def test_the_first_step_that_fails_is_found(first: int) -> None:
    rule = Rule(lambda given, _: given.steps == 0 or given.steps >= first)
    small = make_smaller(job(), rule, tries=40)
    assert small.failure.given.steps == first
    assert small.changes == [f"at most {first} step{'s' * (first > 1)}"]


def test_a_failure_after_the_last_step_keeps_all_of_them() -> None:
    small = make_smaller(job(), Rule(lambda given, _: given.steps == 0), tries=40)
    assert small.failure.given.steps == 0 and small.changes == []


def test_no_more_jobs_are_run_than_allowed_and_ranks_leave_half_of_them_to_steps() -> None:
    rule = Rule(lambda given, _: given.ranks == 64 and given.steps in (0, 3, 4, 5, 6, 7, 8))
    small = make_smaller(job("--nproc-per-node", "64"), rule, tries=20)
    assert len(rule.tried) == small.tries <= 20
    assert {steps for _, steps, _, _ in rule.tried} == {0, 1, 2, 3, 4}
    assert small.failure.given.steps == 3


# -- real jobs
HEAD = '''
import sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
'''
FROM_THE_THIRD_STEP_ON_TWO_RANKS = HEAD + '''
    if step == 2 and rank == 1:
        raise ValueError(f"planted at rank {rank} of {world}")
'''


def command(*arguments: str, words: tuple[str, ...] = ("torchrun",)) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lockstep", *words, *arguments], text=True, capture_output=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))


def test_a_failing_script_is_shrunk_and_its_command_fails_again_in_another_process(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(FROM_THE_THIRD_STEP_ON_TWO_RANKS)
    faults = tmp_path / "faults.txt"
    faults.write_text("slow:0:1:5  # harmless\n\n# nothing\nlate:3:2:5\n")
    done = command("--nproc-per-node", "4", "--no-record", "--arena-mb", "256", "--shrink", "--fault-file", str(faults), str(script))
    assert done.returncode == 1, done.stderr
    # The third step is the first in which it raises; its own hook would end the rank before the line that raises.
    assert "0 of 2 faults, 2 of 4 ranks, at most 4 steps" in done.stdout, done.stdout + done.stderr
    [again] = [line.partition("again: ")[2] for line in done.stdout.splitlines() if line.startswith("lockstep: again: ")]
    words = shlex.split(again)
    assert words[:2] == ["lockstep", "torchrun"] and "--fault" not in words
    repeated = command(*words[2:])
    assert repeated.returncode == 1
    assert "planted at rank 1 of 2" in repeated.stderr + repeated.stdout


def test_only_the_fault_that_breaks_the_job_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.py"
    script.write_text(HEAD)
    prepare()
    given = ["--no-record", "--arena-mb", "256", "--shrink"]
    harmless = ["--fault", "slow:0:1:5", "--fault", "late:1:2:5"]
    assert launch._run_all(options.parse(["--nproc-per-node", "3", *given, *harmless, "--fault", "hang:1:3", str(script)])) == 1
    found = capsys.readouterr().out
    assert "1 of 3 faults, 2 of 3 ranks" in found
    assert "--fault hang:1:3" in found and "slow" not in found
    # The twin: without what breaks it there is nothing to shrink.
    assert launch._run_all(options.parse(["--nproc-per-node", "3", *given, *harmless, str(script)])) == 0
    assert "made smaller" not in capsys.readouterr().out


def test_kinds_of_failures_are_equal_but_for_numbers() -> None:
    def outcome(error: str, *stuck: str) -> launch.Outcome:
        ends = [{"outcome": "stuck", "text": text} for text in stuck]
        return launch.Outcome({"outcome": "deadlock", "error": error, "ends": ends}, 1)

    four = outcome("ranks 1, 2, 3: lost", *["in all_reduce #4 of group 0 at a.py:9"] * 3)
    two = outcome("rank 1: lost", "in all_reduce #2 of group 0 at a.py:9")
    assert kind_of(four) == kind_of(two)
    assert kind_of(outcome("rank 1: lost", "in broadcast #2 of group 0 at a.py:9")) != kind_of(two)
    assert kind_of(outcome("rank 1: found", "in all_reduce #2 of group 0 at a.py:9")) != kind_of(two)


def test_the_command_of_a_job_is_parsed_to_the_same_job() -> None:
    given = options.parse([
        "--nproc-per-node", "3", "--nnodes=2", "--rdzv-id", "a b", "--master-port", "1", "--max-restarts", "2", "--serial",
        "--seed", "4", "--strategy", "pct:depth=3", "--order", "rank", "--pairing", "gloo_like", "--fault", "drop:1:2",
        "--fault", "torn:5:0:10", "--steps", "7", "--separate", "--expire", "--clock", "virtual", "--device", "cpu-as-cuda:6",
        "--no-record", "--arena-mb", "99", "--wall-limit", "1.5", "--allow", "progress", "--buffers", "local", __file__, "--x", "y z"])
    assert options.parse(shlex.split(options.command_of(given))[2:]) == given
    usual = options.parse(["--preload", "json", __file__])
    assert options.parse(shlex.split(options.command_of(usual))[2:]) == usual
    assert replace(usual, seed=1) != usual
