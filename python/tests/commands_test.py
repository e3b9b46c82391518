"""The Python commands on input that is wrong, with output that is lost, and under signals."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep import saying
from lockstep.raised import line_of, text_of

LOCKSTEP = [sys.executable, "-m", "lockstep"]



def run(*words: str, **given: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LOCKSTEP, *words], text=True, stderr=subprocess.PIPE, timeout=60, check=False,
                          **given)  # type: ignore[call-overload,no-any-return]


# -- what cannot be understood
@pytest.mark.parametrize(("words", "says"), [
    (["-o", "/dev/null", "--", "true"], "-o /dev/null: is not a folder"),
    (["-o", "/dev/null/trace", "--", "true"], "-o /dev/null/trace: Not a directory"),
    (["-o", "/proc/trace", "--", "true"], "-o /proc/trace: "),
    (["-o", "", "--", "true"], "-o: names no folder"),
    (["--stuck-after", "nan", "--", "true"], "--stuck-after: must be a number of seconds from 0 to "),
    (["--stuck-after", "inf", "--", "true"], "--stuck-after: must be a number of seconds from 0 to "),
    (["--stuck-after", "0", "--", "true"], "--stuck-after 0: must be above 0"),
    (["--budget", "nan", "--", "true"], "--budget nan: must be a share"),
    (["--stuk-after", "3", "--", "true"], "unrecognized arguments: --stuk-after; did you mean '--stuck-after'?"),
    (["--stop-on", "progres", "--", "true"], "did you mean 'progress'?"),
    ([], "name what is to be recorded"),
])
def test_bad_input_of_record_is_one_sentence(words: list[str], says: str, tmp_path: Path) -> None:
    ran = run("record", *words, cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr.startswith("lockstep record: ") and says in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir()), "nothing was begun"


def test_a_folder_has_one_job_at_a_time(tmp_path: Path) -> None:
    words = ["record", "-o", str(tmp_path / "trace"), "--"]
    with subprocess.Popen([*LOCKSTEP, *words, sys.executable, "-c", "print('ready', flush=True); input()"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert first.stdout is not None and first.stdout.readline() == "ready\n"
        second = run(*words, "true")
        assert second.returncode == 2
        assert "another job is recorded into it; choose another folder with -o" in second.stderr
        other = run("record", "-o", str(tmp_path / "other"), "--", "true")
        assert other.returncode == 0
        first.communicate("\n")
    assert first.returncode == 0
    assert run(*words, "true").returncode == 0, "it is free again"


# -- output
SAYS = "from lockstep import saying\nimport sys\nsys.exit(saying.ended(lambda: saying.say('said') or 0))"


@pytest.mark.parametrize("buffered", [False, True])
def test_output_that_cannot_be_written_is_a_sentence_and_code_3(buffered: bool) -> None:
    environment = dict(os.environ, PYTHONUNBUFFERED="" if buffered else "1")
    for program in ([sys.executable, "-c", SAYS], [*LOCKSTEP, "record", "--help"], [*LOCKSTEP, "torchrun", "--help"]):
        with open("/dev/full", "w") as full:
            ran = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
                                 env=environment)
        assert (ran.returncode, ran.stderr) == (3, "lockstep: cannot write to the standard output: No space left on device\n")


def test_output_that_is_closed_is_a_sentence_and_code_3(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("open('ran', 'w')\n")
    ran = run("torchrun", str(script), preexec_fn=lambda: os.close(1), cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (3, "lockstep: cannot write to the standard output: Bad file descriptor\n")
    assert not (tmp_path / "ran").exists()


def test_output_that_nobody_reads_ends_a_command_as_any_other() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run([sys.executable, "-c", SAYS], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (-signal.SIGPIPE, "")


def test_what_a_command_says_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    saying.say("boom \x1b]0;T\x07\n\tmore \u202e")
    saying.warn("\x9b2J")
    assert capsys.readouterr() == ("boom \\u001b]0;T\\u0007\n\tmore \\u202e\n", "\\u009b2J\n")


def test_what_a_terminal_has_no_letters_for_is_said_with_escapes() -> None:
    ran = subprocess.run([sys.executable, "-c", SAYS.replace("'said'", "'\\u00e9\\udc80'")], env=dict(os.environ, PYTHONIOENCODING="ascii"),
                         capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (0, "\\xe9\\udc80\n"), ran.stderr


# -- exceptions
def test_an_exception_that_cannot_say_anything_is_named() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    assert text_of(Mute()) == line_of(Mute()) == "Mute: <exception str() failed>"
    assert (text_of(ValueError("a\nb")), line_of(ValueError("a\nb")), line_of(ValueError())) == ("ValueError: a\nb", "ValueError: a", "ValueError")


def test_a_word_that_names_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")
    assert run("record", "--", "true", "train.py", cwd=tmp_path).returncode == 0
