"""torch.multiprocessing.spawn in the process of a script that starts its ranks itself (script_job.py), and in ranks,
which start none."""
from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import select
import signal
import socket
import sys
from multiprocessing import spawn as multiprocessing_spawn
from typing import TYPE_CHECKING, Any, NoReturn

import torch.multiprocessing as mp
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from lockstep.torch.sites import site
from lockstep.virtual.connection import Refused
from lockstep.virtual.rank import EXIT_STOPPED
from lockstep.virtual.spawn_request import MOST_DESCRIPTORS, Files, Request, Start, pickled_for_spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.virtual.launch import Outcome
    from lockstep.virtual.rank import Rank

_STARTS = {"spawn": Start.SPAWN, "forkserver": Start.SPAWN, "fork": Start.FORK}
_POLL_S = 0.005


def refuse(rank: Rank) -> None:
    """In the process of a rank."""
    def start_processes(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, *_: Any, **__: Any) -> Any:
        multiprocessing_spawn._check_not_importing_main()  # type: ignore[attr-defined]
        raise Refused(f"torch.multiprocessing.spawn of {nprocs} processes in rank {rank.place.rank} of "
                      f"{rank.place.world}: a rank starts no ranks. Run a script that starts them itself as one process: "
                      "lockstep run SCRIPT; the processes that it starts are the ranks")

    _put(start_processes)


def install(start: Callable[[Request, Start, Callable[..., Any], tuple[Any, ...], list[int], int], None],
            folder: str) -> None:
    """In the process of the script.

    Args:
        start: starts a job; its last argument is a pipe to write a byte into when the job has ended.
    """
    contexts: list[Context] = []

    def start_processes(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
                        daemon: bool = False, start_method: str = "spawn") -> Context | None:
        multiprocessing.get_context(start_method)  # Raises for a method that there is not.
        how = _STARTS[start_method]
        preparation, body, descriptors = pickled_for_spawn(fn, args) if how is Start.SPAWN else (b"", b"", [])
        if len(descriptors) >= MOST_DESCRIPTORS:
            raise Refused(f"torch.multiprocessing.spawn: {len(descriptors)} shared tensors and queues among the arguments; "
                          f"{MOST_DESCRIPTORS - 1} at most are passed to virtual ranks")
        file, line = site(sys._getframe(1))
        request = Request(Files(folder).new_number(), nprocs, f"{file}:{line}", dict(os.environ), preparation, body)
        reading, writing = os.pipe()
        context = Context(request, Files(folder), reading)
        contexts.append(context)
        if nprocs > 0:
            start(request, how, fn, args, descriptors, writing)
        else:
            Files(folder).of_none().write_text(request.called)
        for descriptor in (*descriptors, writing):
            os.close(descriptor)
        if not join:
            return context
        while not context.join():
            pass
        return None

    _put(start_processes)
    atexit.register(lambda: [context.wait(None) for context in contexts])  # As Python waits for processes at its end.


def _put(start_processes: Callable[..., Any]) -> None:
    def spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
              daemon: bool = False, start_method: str = "spawn") -> Any:
        return start_processes(fn, args, nprocs, join, daemon, start_method)

    for owner in (mp, sys.modules["torch.multiprocessing.spawn"]):
        setattr(owner, "spawn", spawn)
        setattr(owner, "start_processes", start_processes)


class Process:
    """One of the processes, as the script that started it sees it."""

    daemon = False

    def __init__(self, context: Context, index: int) -> None:
        self._context = context
        self._index = index
        self.name = f"SpawnProcess-{index + 1}"

    @property
    def pid(self) -> int:
        return self._context.pid(self._index)

    @property
    def exitcode(self) -> int | None:
        outcome = self._context.outcome()
        return None if outcome is None else _code(outcome.found["ends"][self._index])

    def is_alive(self) -> bool:
        return self._context.outcome() is None

    def join(self, timeout: float | None = None) -> None:
        self._context.wait(timeout)

    def terminate(self) -> None:
        if self.is_alive():
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)


class Context:
    """What PyTorch's ProcessContext is: the processes of one call."""

    def __init__(self, request: Request, files: Files, done: int) -> None:
        self._request = request
        self._files = files
        self._done = done  # Readable once the job has ended.
        self._outcome: Outcome | None = None
        self._joined = request.count <= 0
        self.processes = [Process(self, index) for index in range(request.count)]
        self.error_files = [str(files.error(request.number, index)) for index in range(request.count)]

    def pid(self, index: int) -> int:
        """Waits until the process has begun."""
        path = self._files.pid(self._request.number, index)
        while not (path.exists() and path.read_text().endswith("\n")):
            if self.wait(_POLL_S) and not path.exists():
                raise ProcessLookupError(f"process {index} never began")
        return int(path.read_text())

    def pids(self) -> list[int]:
        return [each.pid for each in self.processes]

    def wait(self, timeout: float | None) -> bool:
        """Returns: whether the job has ended."""
        if self._outcome is not None or self._joined:
            return True
        if not select.select([self._done], [], [], timeout)[0]:
            return False
        path = self._files.outcome(self._request.number)
        if not path.exists():
            raise Refused("the job of ranks ended before it could say how")
        self._outcome = pickle.loads(path.read_bytes())
        return True

    def outcome(self) -> Outcome | None:
        """None while the job runs."""
        self.wait(0)
        return self._outcome

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """As PyTorch's, but that the processes end together. Does not return where a real one would wait forever."""
        if self._joined:
            return True
        if not self.wait(timeout):
            return False
        self._joined = True
        assert self._outcome is not None
        found = self._outcome.found
        if found["outcome"] == "ok":
            return True
        if found["outcome"] != "failed":
            _stop_here()
        first = found["first_failure"]
        failed = [index for index, end in enumerate(found["ends"]) if _code(end)]
        index = first if first is not None and first in failed else failed[0]
        self._raise(index, _code(found["ends"][index]))

    def _raise(self, index: int, code: int) -> NoReturn:
        path = self._files.error(self._request.number, index)
        if path.exists():
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{path.read_text()}", index, self.pid(index))
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(f"process {index} terminated with signal {name}", index, self.pid(index), code, name)
        raise ProcessExitedException(f"process {index} terminated with exit code {code}", index, self.pid(index), code)


def _code(end: Any) -> int:
    """As multiprocessing has exit codes."""
    if end["signal"] is not None:
        return -int(end["signal"])
    return int(end["exit_code"] or 0)


def _stop_here() -> NoReturn:
    """No rank could go on: the script waits for them, and would forever."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_STOPPED)


def send(end: socket.socket, request: Request, folder: str, descriptors: list[int]) -> None:
    """Hands a request over to the process that starts the ranks."""
    Files(folder).request(request.number).write_bytes(pickle.dumps(request))
    socket.send_fds(end, [str(request.number).encode()], descriptors)
