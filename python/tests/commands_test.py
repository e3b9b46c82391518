"""The Python commands on input that is wrong, with output that is lost, and under signals."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lockstep import terminal
from lockstep.exception_text import line_of, text_of

LOCKSTEP = [sys.executable, "-m", "lockstep"]
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Ends with the number of times that it was asked to end, a while after the first.
COUNTS = """
import signal, sys, time
asked = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, lambda *_: asked.append(0))
print("ready", flush=True)
while not asked:
    time.sleep(0.01)
time.sleep(0.6)
sys.exit(len(asked) if sys.argv[1:] != ["well"] else 0)
"""


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


# -- signals
def recording(folder: Path, *job: str, ignoring: bool = False) -> subprocess.Popen[str]:
    """A recorded job that is ready, in a group of its own."""
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = subprocess.Popen(
        [*LOCKSTEP, "record", "-o", str(folder / "trace"), "--", sys.executable, "-c", *job], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=ignore if ignoring else None)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_to_record_alone_ends_the_job(number: signal.Signals, tmp_path: Path) -> None:
    sleeps = "import os, time; print('ready', flush=True); print(os.getpid(), flush=True); time.sleep(60)"
    with recording(tmp_path, sleeps) as process:
        assert process.stdout is not None
        job = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(20) == 128 + number
        assert not Path(f"/proc/{job}").exists()


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("group", [False, True])
def test_the_job_has_a_signal_once_whether_its_group_was_sent_it_or_record_alone(number: signal.Signals, group: bool, tmp_path: Path) -> None:
    count = COUNTS.replace("sys.exit(", "print(len(asked), flush=True); sys.exit(")
    with recording(tmp_path, count) as process:
        (os.killpg if group else os.kill)(process.pid, number)
        assert process.wait(20) == 128 + number
        assert process.stdout is not None and process.stdout.read() == "1\n"


def test_a_job_that_ends_well_after_a_signal_has_ended_well(tmp_path: Path) -> None:
    with recording(tmp_path, COUNTS, "well") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_an_interrupt_that_was_ignored_from_the_start_is_ignored_with_its_group(tmp_path: Path) -> None:
    ignores = "import time; print('ready', flush=True); time.sleep(1.5); raise SystemExit(5)"
    with recording(tmp_path, ignores, ignoring=True) as process:
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 5


def test_an_interrupt_of_record_alone_reaches_a_job_that_a_shell_started(tmp_path: Path) -> None:
    with recording(tmp_path, COUNTS, ignoring=True) as process:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(20) == 128 + signal.SIGINT


def test_no_witness_is_left_of_a_record_that_is_killed(tmp_path: Path) -> None:
    with recording(tmp_path, "import time; print('ready', flush=True); time.sleep(60)") as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 2, "the job and the witness"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
        end = time.monotonic() + 20
        while is_running(children[0]) and time.monotonic() < end:
            time.sleep(0.02)
        assert not is_running(children[0])
        os.kill(int(children[1]), signal.SIGKILL)


def is_running(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# -- output
SAYS = "from lockstep import terminal\nimport sys\nsys.exit(terminal.ended(lambda: terminal.say('said') or 0))"


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


def test_output_that_no_process_reads_ends_a_command_as_any_other() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run([sys.executable, "-c", SAYS], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (-signal.SIGPIPE, "")


def test_what_a_command_says_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say("boom \x1b]0;T\x07\n\tmore \u202e")
    terminal.warn("\x9b2J")
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
