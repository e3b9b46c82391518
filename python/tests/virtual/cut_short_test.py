"""Ranks that end before their program does: --steps, and torn writes."""
from __future__ import annotations

from pathlib import Path

import pytest
from lockstep.command_line import Usage
from lockstep.virtual import launch, options
from virtual_job import lines_of, printed, run_virtual

TRAIN = '''
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    print("after", step, flush=True)
'''


@pytest.mark.parametrize(("steps", "seen"), [("1", 0), ("3", 2), ("5", 4), ("0", 5), ("9", 5)])
def test_a_rank_ends_after_its_steps(steps: str, seen: int, tmp_path: Path) -> None:
    """Inside of the last one: the line after it is not reached."""
    script = tmp_path / "job.py"
    script.write_text(TRAIN)
    outcome = run_virtual(script, 2, "--steps", steps)
    assert outcome.ok, printed(outcome) + str(outcome.report)
    assert lines_of(outcome, "after") == sorted(f"after {step}" for step in range(seen) for _ in range(2))


def test_steps_are_those_of_one_optimizer(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(TRAIN.replace("for step", "other = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)\nfor step")
                      .replace("    optimizer.step()\n", "    optimizer.step()\n    other.step()\n"))
    outcome = run_virtual(script, 2, "--steps", "3", "--no-record")
    assert lines_of(outcome, "after") == sorted(f"after {step}" for step in (0, 1) for _ in range(2))


# -- torn writes
SAVE = '''
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
path = f"{sys.argv[1]}/model.pt"
if attempt and rank == 0:
    try:
        print("read", torch.load(path)["step"])
    except Exception:
        print("unreadable")
torch.save({}, open(os.devnull, "wb"))
for step in range(3 if not attempt else 0):
    dist.barrier()
    if rank == 0:
        SAVE({"step": step, "weights": torch.arange(4096.)}, path)
'''
IN_PLACE = "torch.save"
BY_AN_OPEN_FILE = "(lambda state, path: [torch.save(state, file) for file in [open(path, 'wb')]])"
BESIDE = "(lambda state, path: (torch.save(state, path + '.new'), os.replace(path + '.new', path)))"


def saved(tmp_path: Path, how: str, *given: str, restarts: str = "1") -> launch.Outcome:
    script = tmp_path / "job.py"
    script.write_text(SAVE.replace("SAVE", how))
    return run_virtual(script, 2, "--no-record", "--max-restarts", restarts, *given, arguments=(str(tmp_path),))


@pytest.mark.parametrize("how", [IN_PLACE, BY_AN_OPEN_FILE])
def test_a_torn_write_leaves_a_part_of_the_file_and_the_restart_meets_it(how: str, tmp_path: Path) -> None:
    assert saved(tmp_path, how).ok
    whole = (tmp_path / "model.pt").read_bytes()
    outcome = saved(tmp_path, how, "--fault", "torn-write:0:3:40")  # Save 0 goes to /dev/null.
    assert (tmp_path / "model.pt").read_bytes() == whole[:len(whole) * 40 // 100]
    assert lines_of(outcome, "unreadable") == ["unreadable"], printed(outcome)
    assert outcome.attempts == 2 and outcome.ok
    assert outcome.found["struck"] == ["rank 0: torn-write, 40 % of save 3"]


def test_a_file_that_is_written_beside_the_old_one_survives_a_torn_write(tmp_path: Path) -> None:
    outcome = saved(tmp_path, BESIDE, "--fault", "torn-write:0:3")
    assert lines_of(outcome, "read") == ["read 1"], printed(outcome)
    assert not lines_of(outcome, "unreadable")


def test_a_torn_write_without_a_restart_is_a_failure_of_its_rank(tmp_path: Path) -> None:
    outcome = saved(tmp_path, IN_PLACE, "--fault", "torn:0:1:0", restarts="0")
    assert outcome.found["outcome"] == "failed" and outcome.found["first_failure"] == 0
    assert (tmp_path / "model.pt").read_bytes() == b""


def test_a_fault_that_strikes_nothing_is_said(tmp_path: Path) -> None:
    outcome = saved(tmp_path, IN_PLACE, "--fault", "torn:1:1", "--fault", "slow:0:1:1")
    assert outcome.ok and len(outcome.found["struck"]) == 1
    assert [note for note in outcome.found["notes"] if note.startswith("1 of 2 planned faults struck")]


# -- files of faults
def test_a_file_of_faults_is_read_after_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "faults.txt"
    file.write_text("# planned\n\n  drop:1:4   # the fourth call\ntorn-write:0:2:10\n")
    given = options.parse(["--nproc-per-node", "2", "--fault", "kill:0:9", "--fault-file", str(file), __file__])
    assert given.faults == ("kill:0:9", "drop:1:4", "torn-write:0:2:10")
    assert given.torn == ((0, 2, 10),)


@pytest.mark.parametrize(("text", "says"), [
    ("drop:1:4\n  dorp:0:1  # x\n", r"faults.txt:2:3: fault 'dorp:0:1': .* did you mean 'drop'\?"),
    ("drop:2:4\n", r"faults.txt:1:1: .*'2' is not one of the 2 ranks"),
    ("torn:1:x\n", r"faults.txt:1:1: .*'x' is not a call's number"),
    ("torn:1:0:100\n", r"faults.txt:1:1: .*'100' is not an amount of 0 to 99"),
    ("\nkill\n", r"faults.txt:2:1: .*KIND:RANK:CALL"),
])
def test_a_bad_line_of_a_file_of_faults_is_named(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.txt"
    file.write_text(text)
    with pytest.raises(Usage, match=says):
        options.parse(["--nproc-per-node", "2", "--fault-file", str(file), __file__])


def test_a_file_of_faults_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="--fault-file .*absent: No such file"):
        options.parse(["--fault-file", str(tmp_path / "absent"), __file__])
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(Usage, match="--fault-file .*binary: .*utf-8"):
        options.parse(["--fault-file", str(tmp_path / "binary"), __file__])


@pytest.mark.parametrize(("given", "says", "alone"), [
    (["--steps", "-1"], "--steps: must be a whole number from 0", False),
    (["--steps", "x"], "--steps: must be a whole number from 0", False),
    (["--separate", "--preload", "json"], "--separate: not simulated with --preload", False),
    (["--separate"], "--separate: not simulated for ranks that a script starts itself", True),
])
def test_bad_values_are_refused(given: list[str], says: str, alone: bool) -> None:
    with pytest.raises(Usage, match=says):
        options.parse([*given, __file__], alone)
