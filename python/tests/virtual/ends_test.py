"""How a rank's end is reported: by its own exception, its forks, and a command whose output or start is cut short."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from virtual_job import lines_of, printed, run_virtual, write

JOIN = '''
import os, sys
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
'''


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lockstep", "torchrun", *arguments]


ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")


# -- exceptions and forks
@pytest.mark.parametrize(("raises", "says"), [
    ('class Mute(Exception):\n    def __str__(self): raise RuntimeError("mute")\n    __repr__ = __str__\nraise Mute()',
     "Mute: <exception str() failed>"),
    ("sys.excepthook = None\nraise ValueError('x')", "ValueError: x"),
    ("del sys.excepthook\nraise ValueError('x')", "ValueError: x"),
    ("sys.excepthook = lambda *_: 1 / 0\nraise ValueError('x')", "ValueError: x"),
])
def test_a_rank_that_raises_is_named_whatever_the_program_made_of_exceptions(raises: str, says: str, tmp_path: Path) -> None:
    body = raises.replace("\n", "\n    ")
    outcome = run_virtual(write(tmp_path, JOIN + f"if rank == 1:\n    {body}\ndist.barrier()\n"), 2)
    assert outcome.found["error"] == f"rank 1: {says}"
    assert outcome.found["ends"][1]["exit_code"] == 1
    assert any(rank == 1 and line.endswith(says) for rank, line in outcome.lines), printed(outcome)
    assert outcome.report is not None and says in str(outcome.report)
    assert "lockstep/virtual" not in "".join(line for rank, line in outcome.lines if rank == 1), "no frames of ours"


@pytest.mark.parametrize(("ends", "code"), [("sys.exit(3)", 3), ("pass", 0), ("raise ValueError", 1), ("os._exit(4)", 4)])
def test_a_process_that_a_rank_forks_ends_as_under_python(ends: str, code: int, tmp_path: Path) -> None:
    outcome = run_virtual(write(tmp_path, JOIN + f'''
child = os.fork()
if child == 0:
    {ends}
else:
    print("code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    dist.barrier()
'''), 2)
    assert outcome.ok, printed(outcome)
    assert lines_of(outcome, "code") == [f"code {code}"] * 2


def test_an_exit_code_beyond_all_bounds_is_what_python_makes_of_it(tmp_path: Path) -> None:
    outcome = run_virtual(write(tmp_path, "import sys\nsys.exit(10 ** 30)\n"), 1, "--no-record")
    assert outcome.found["error"] == "rank 0: exit code -1"
    assert outcome.found["ends"][0]["exit_code"] == 255


# -- the command
def test_the_report_shows_what_a_rank_raised_without_control_bytes(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + r"raise ValueError('boom \x1b[2J\x1b]0;T\x07')")
    ran = subprocess.run(command("--nproc-per-node", "1", str(script)), capture_output=True, text=True, env=ENVIRONMENT, check=False)
    shown = ran.stdout + "".join(line for line in ran.stderr.splitlines(True) if not line.startswith("[rank 0] "))
    assert shown.count("boom \\u001b[2J\\u001b]0;T\\u0007") == 2
    assert "\x1b" not in shown and "\x07" not in shown


LINES = "for number in range(200000):\n    print('line', number)\nwhile True:\n    pass\n"


def test_ranks_are_ended_once_no_process_reads_what_they_print(tmp_path: Path) -> None:
    with subprocess.Popen(command("--nproc-per-node", "2", str(write(tmp_path, LINES))), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "] line" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == -signal.SIGPIPE
        assert process.stderr.read() == ""


STARTS = f'''
import torch.multiprocessing as mp

def work(index):
    import torch.distributed as dist
    dist.init_process_group("gloo", rank=index, world_size=2, init_method="tcp://127.0.0.1:29533")
    {"    ".join(LINES.splitlines(True))}
if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method=METHOD)
'''


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_script_that_starts_its_ranks_is_ended_once_no_process_reads_what_they_print(method: str, tmp_path: Path) -> None:
    script = write(tmp_path, STARTS.replace("METHOD", repr(method)))
    with subprocess.Popen([sys.executable, "-m", "lockstep", "run", str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "] line" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == -signal.SIGPIPE
        assert process.stderr.read() == ""


def test_ranks_are_ended_once_what_they_print_cannot_be_written(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command("--nproc-per-node", "2", str(write(tmp_path, LINES))), stdout=full, stderr=subprocess.PIPE,
                             text=True, env=ENVIRONMENT, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (3, "lockstep: cannot write to the standard output: No space left on device\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_ranks_have_started_ends_the_command(number: signal.Signals, tmp_path: Path) -> None:
    """Modules that are imported catch everything, as some do."""
    (tmp_path / "catches.py").write_text(
        "import time\nwhile True:\n    try:\n        print('here', flush=True)\n        time.sleep(60)\n    except BaseException:\n        pass\n")
    with subprocess.Popen(command("--preload", "catches", str(write(tmp_path, ""))), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=ENVIRONMENT | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"}) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (128 + number, "lockstep: INTERRUPTED: no rank had started\n")


def test_a_log_that_cannot_be_written_is_named_and_the_job_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    script = write(tmp_path, JOIN + "open(sys.argv[1], 'w').close()\nprint('a line')\ndist.barrier()\nprint('here')\n")
    begin = time.monotonic()
    outcome = run_virtual(script, 1, "--log-dir", str(log), "--no-record", arguments=(str(log),))  # A file where the folder would be.
    assert outcome.ok and lines_of(outcome, "here") == ["here"]
    assert time.monotonic() - begin < 60
    assert f"lockstep: {log}/0: Not a directory: what ranks print is not kept any more\n" == capsys.readouterr().err


def test_no_log_is_kept_in_a_folder_that_is_the_null_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run_virtual(write(tmp_path, "print('here')\n"), 1, "--log-dir", os.devnull, "--no-record")
    assert lines_of(outcome, "here") == ["here"] and capsys.readouterr().err == ""
