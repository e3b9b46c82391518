"""What run.py promises of a suite: processes that are left are named, killed, and fail it where nothing else would."""
from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import soaking

HERE = Path(__file__).resolve().parent
LEAVES = 'subprocess.Popen(["sleep", "3600"], start_new_session=True)'  # With the suite's output in its hands.
TWICE = '''
seen = Path(__file__).with_name("seen")
is_first = not seen.exists()
seen.touch()
assert not is_first, "the first time"
'''


def suite_of(test: str, folder: Path, repeats: bool = False) -> subprocess.CompletedProcess[str]:
    """A suite of one test, by run.py. Its output is read to the end, so every process that has it must have ended."""
    file = folder / "one_test.py"
    file.write_text("import subprocess\nfrom pathlib import Path\n\ndef test_it():\n" + textwrap.indent(test, "    "))
    program = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
import run
run.PATIENCE_S = 0.5
run.adopt_orphans()
words = [sys.executable, "-m", "pytest", "-q", "--rootdir", {str(folder)!r}, {str(file)!r}]
sys.exit(run.tested(words, dict(os.environ), repeats={repeats}))
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def left(ran: subprocess.CompletedProcess[str]) -> list[int]:
    """The processes that it names, all of which sleep."""
    lines = ran.stderr.partition("left running:\n")[2].splitlines()
    found = [re.fullmatch(r"  process (\d+): sleep, sleep 3600 , waits in \w*", line) for line in lines]
    assert all(found), lines
    return [int(line[1]) for line in found if line]


def runs(process: int) -> bool:
    """Whether it has not ended. What nothing has waited for yet is no more than its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_suite_that_leaves_nothing_passes(tmp_path: Path) -> None:
    ran = suite_of("pass", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


def test_a_process_that_is_left_fails_a_suite_that_passed_and_is_named_and_killed(tmp_path: Path) -> None:
    ran = suite_of(LEAVES, tmp_path)
    assert ran.returncode == 1 and "1 passed" in ran.stdout
    (process,) = left(ran)
    assert not runs(process)


def test_a_test_that_fails_once_is_named_and_passes_the_second_time(tmp_path: Path) -> None:
    ran = suite_of(TWICE, tmp_path, repeats=True)
    assert ran.returncode == 0 and "all of them passed the second time" in ran.stdout
    assert "the first time" in ran.stdout


@pytest.mark.parametrize("test", [LEAVES + TWICE, "seen = Path(__file__).with_name('seen')\n"
                                  "if not seen.exists(): " + LEAVES + TWICE])
def test_what_a_failed_test_leaves_is_named_and_killed_but_is_no_other_failure(test: str, tmp_path: Path) -> None:
    ran = suite_of(test, tmp_path, repeats=True)
    assert ran.returncode == 0, ran.stdout
    processes = left(ran)
    assert processes and not any(map(runs, processes))


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    ran = suite_of("assert False", tmp_path, repeats=True)
    assert ran.returncode == 1 and "some failed twice" in ran.stdout


def test_without_repeats_one_failure_fails(tmp_path: Path) -> None:
    ran = suite_of(TWICE, tmp_path)
    assert ran.returncode == 1 and "second time" not in ran.stdout


def test_what_lockstep_leaves_among_temporary_files_fails_the_suite(tmp_path: Path) -> None:
    ran = suite_of("import tempfile; tempfile.mkdtemp(prefix='lockstep-')", tmp_path)
    assert ran.returncode == 1 and "Lockstep left:" in ran.stderr


def test_each_script_runs_on_one_number_of_ranks_and_in_a_soak_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soaking, "SOAK", False)
    assert soaking.with_ranks("abc") == [("a", 2), ("b", 3), ("c", 2)]
    assert soaking.with_ranks("abc", shift=1) == [("a", 3), ("b", 2), ("c", 3)]
    assert soaking.with_ranks("abcd", (2, 3, 4)) == [("a", 2), ("b", 3), ("c", 4), ("d", 2)]
    monkeypatch.setattr(soaking, "SOAK", True)
    assert soaking.with_ranks("ab") == [("a", 2), ("a", 3), ("b", 2), ("b", 3)]
