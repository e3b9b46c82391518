"""However a job is ended, nothing of it is left: no process, no shared memory, no folder."""
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# Runs until it is ended: each rank computes, exchanges, and has a worker of a loader.
SCRIPT = '''
import os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
loader = DataLoader(TensorDataset(torch.arange(10.0 ** 6)), num_workers=1)
for number, (x,) in enumerate(loader):
    dist.all_reduce(x)
    if number == 3:
        children = open(f"/proc/self/task/{os.getpid()}/children").read()
        print("here", os.environ["RANK"], os.getpid(), children, flush=True)
'''
RANKS = 3
LIMIT_S = 30.0


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + LIMIT_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def numbers_in(name: str) -> set[int]:
    """Whole words of digits. Names of semaphores are random, and other programs' may hold any."""
    return set() if name.startswith("sem.") else set(map(int, re.findall(r"(?<![0-9a-z])\d+(?![0-9a-z])", name)))


class Job:
    def __init__(self, process: subprocess.Popen[str], scratch: Path) -> None:
        self.process = process
        self.scratch = scratch
        self.ranks: dict[int, int] = {}  # Process by rank.
        self.pids: set[int] = {process.pid}
        assert process.stdout is not None
        while len(self.ranks) < RANKS:
            line = process.stdout.readline()
            assert line, "the job ended too early"
            words = re.findall(r"here (\d+) (\d+) ([\d ]*)", line)
            for rank, pid, children in words:
                self.ranks[int(rank)] = int(pid)
                self.pids |= {int(pid), *map(int, children.split())}
        assert len(self.pids) == 1 + 2 * RANKS, "every rank has its worker"

    def left(self) -> list[str]:
        """What is left of it."""
        running = [f"process {pid}" for pid in self.pids if is_running(pid)]
        shared = [name for name in os.listdir("/dev/shm") if self.pids & numbers_in(name)]
        return [*running, *shared, *(path.name for path in self.scratch.iterdir())]


@contextmanager
def running(folder: Path, *given: str) -> Iterator[Job]:
    script = folder / "job.py"
    script.write_text(SCRIPT)
    scratch = folder / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "torchrun", "--nproc-per-node", str(RANKS), *given, str(script)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # PyTorch keeps its cache of compiled code, on purpose.
        env=dict(os.environ, OMP_NUM_THREADS="1", TMPDIR=str(scratch), TORCHINDUCTOR_CACHE_DIR=str(folder / "compiled")))
    job = None
    try:
        job = Job(process, scratch)
        yield job
    finally:
        for pid in job.pids if job is not None else {process.pid}:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def test_a_killed_coordinator_leaves_no_process(tmp_path: Path) -> None:
    """It is the one that ranks were forked from, too."""
    with running(tmp_path, "--no-record") as job:
        os.kill(job.process.pid, signal.SIGKILL)
        assert wait_until(lambda: not job.left()), job.left()


def test_a_job_with_a_killed_rank_leaves_no_process(tmp_path: Path) -> None:
    with running(tmp_path) as job:
        os.kill(job.ranks[1], signal.SIGKILL)
        _, errors = job.process.communicate(timeout=LIMIT_S)
        assert job.process.returncode == 1
        assert "FAILED: rank 1" in errors and "signal 9" in errors, errors
        assert wait_until(lambda: not job.left()), job.left()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_job_leaves_no_process(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with running(tmp_path) as job:
        os.killpg(job.process.pid, number)  # As a terminal does.
        _, errors = job.process.communicate(timeout=LIMIT_S)
        assert job.process.returncode == code, errors
        assert "INTERRUPTED" in errors and "Traceback" not in errors, errors
        assert wait_until(lambda: not job.left()), job.left()


def test_shared_memory_is_known_by_a_whole_number() -> None:
    assert numbers_in("torch_551_3298_0") == {551, 3298, 0}
    assert not numbers_in("torch_z5516y") | numbers_in("sem.mp-551_x")


def test_what_is_left_would_be_noticed(tmp_path: Path) -> None:
    """The twin: a job that runs on leaves processes and its folder."""
    with running(tmp_path) as job:
        left = job.left()
        assert sum(name.startswith("process") for name in left) == 1 + 2 * RANKS
        assert len(left) > 1 + 2 * RANKS
