"""Runs a script as several ranks on gloo, forked from a process that has PyTorch loaded: the same script
under torchrun takes ten seconds of imports, this takes half a second."""
from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lockstep.torch
import torch
import torch._dynamo  # noqa: F401  DDP's constructor imports it, once per process.
import torch.distributed.optim  # noqa: F401
from lockstep.lasting import Lasting
from lockstep.torch.variables import look_at_modules
from lockstep.trace_completion import reap

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "support"))
from ports import reserved_ports  # noqa: E402

lockstep.torch.import_seams()  # As PyTorch: once, and not in each rank.
look_at_modules()
gc.freeze()  # A collection in a rank would copy the pages of all that is loaded here.

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
LIMIT_S = 60.0
GRACE_S = 5.0
ASKED_WHERE = signal.SIGUSR2  # A process of a job writes where it is.
SILENT_S = 3.5  # Nothing is recorded and hardly anything computed for that long: the ranks wait for each other.
HARDLY_S = 0.1  # Seconds of a rank's processor: what looks after its recording takes less in that time.


@dataclass
class Ran:
    codes: list[int]
    output: str
    seconds: float = 0.0
    troubles: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Recorded:
    ran: Ran
    trace: Path


Recorder = Callable[[str, int], Recorded]  # Of a script of SCRIPTS and this many ranks.


def _be_a_rank(script: Path, arguments: tuple[str, ...], folder: Path | None, output: Path,
               environment: dict[str, str]) -> int:
    os.environ.update(environment)
    log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")  # Not those of pytest.
    faulthandler.register(ASKED_WHERE, file=2)  # Loaders' workers, too: they are forks.
    sys.argv = [str(script), *arguments]
    recorder = None
    code = 0
    if folder is not None:
        recorder = lockstep.torch.start(str(folder), float(environment["LOCKSTEP_BUDGET"]))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except BaseException as error:
        traceback.print_exc()
        code = 1
        if recorder is not None:
            recorder.exception = f"{type(error).__name__}: {error}"
    if recorder is not None:
        lockstep.torch.ending.finish(recorder)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def run_job(script: Path, ranks: int, folder: Path | None, scratch: Path, budget: float = 0.0,
            arguments: tuple[str, ...] = ()) -> Ran:
    """Runs the script, recorded into `folder` if one is given, until all ranks are gone."""
    with reserved_ports() as port:
        return _run_job(script, ranks, folder, scratch, budget, arguments, port)


def _run_job(script: Path, ranks: int, folder: Path | None, scratch: Path, budget: float,
             arguments: tuple[str, ...], port: int) -> Ran:
    started = time.monotonic()
    environment = {"WORLD_SIZE": str(ranks), "LOCKSTEP_BUDGET": str(budget), "MASTER_ADDR": "127.0.0.1", "LOCKSTEP_RUN": scratch.name,
                   "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    outputs = [scratch / f"{script.stem}.{folder is None}.{rank}" for rank in range(ranks)]
    children = {}
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            mine = environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            code = 99
            try:
                code = _be_a_rank(script, arguments, folder, outputs[rank], mine)
            finally:
                os._exit(code)
        children[child] = rank
    codes = _wait_for(children, folder)
    if folder is not None:
        reap(folder)
    text = "".join(path.read_text() for path in outputs if path.exists())
    return Ran(codes, text, time.monotonic() - started, _troubles(folder))


def _wait_for(children: dict[int, int], folder: Path | None) -> list[int]:
    codes = [0] * len(children)
    alive = set(children)
    is_ended = False
    running, failing, ending = Lasting(), Lasting(), Lasting()
    silence = Silence(folder)
    while alive:
        time.sleep(0.05)
        for child in list(alive):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                alive.discard(child)
                codes[children[child]] = os.waitstatus_to_exitcode(status)
        # What torchrun does: one failed, so all end. Those that wait for it have the time to notice it themselves.
        is_over = failing.look(any(codes)) > GRACE_S if any(codes) else silence.lasts(alive)
        if alive and not is_ended and (is_over or running.look(True) > LIMIT_S):
            is_ended = True
            for process in sorted(alive | _below(alive)):  # For a test that did not expect this.
                _signal({process}, ASKED_WHERE)
                time.sleep(0.1)  # One after another: a rank and its forks write into one file.
            _signal(alive, signal.SIGTERM)
        if alive and ending.look(is_ended) > 10 and is_ended:
            _signal(alive, signal.SIGKILL)
    return codes


def _signal(children: set[int], number: int) -> None:
    for child in children:
        with contextlib.suppress(ProcessLookupError):  # It has ended, and is not a child of this process.
            os.kill(child, number)


def _below(processes: set[int]) -> set[int]:
    """Their children that are as they were forked: what has started another program may not expect the signal."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent in processes and (path.parent / "exe").readlink() == Path(f"/proc/{parent}/exe").readlink():
                found.add(int(path.parent.name))
    return found


class Silence:
    """Of a job that is recorded. A rank that computes is not silent, however slowly a busy machine lets it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._quiet = Lasting()
        self._counted = 0.0  # Of the processor's time.

    def lasts(self, alive: set[int]) -> bool:
        times = [path.stat().st_mtime for path in self._folder.glob("*.jsonl")] if self._folder is not None else []
        computed = sum(_computed(child) for child in alive)
        if not times:
            return False
        if computed > self._counted + HARDLY_S * len(alive):
            self._counted = computed
        return self._quiet.look((max(times), self._counted)) > SILENT_S


def _computed(process: int) -> float:
    """Seconds of a processor that it has used."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _troubles(folder: Path | None) -> list[str]:
    """What the recorder could not do."""
    files = folder.glob("*.jsonl") if folder is not None else []
    return [line for path in files for line in path.read_text().splitlines()
            if '"about":"missed"' in line]


assert torch.distributed.is_gloo_available()
