"""What a script asks for that starts its ranks itself, and what each of the processes does: the function that
torch.multiprocessing.spawn was given."""
from __future__ import annotations

import io
import os
import pickle
import traceback
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing import context, process, reduction
from multiprocessing import spawn as multiprocessing_spawn
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.exception_text import text_of
from lockstep.virtual.rank import Failed, current

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.virtual.launch import Outcome

MOST_DESCRIPTORS = 250  # That one message of a socket can carry.
_LONGEST_SOCKET = 107  # Bytes of its path: sun_path of unix(7), without the zero at its end.
_received: list[int] = []


class Start(Enum):
    """How processes start."""

    SPAWN = "spawn"  # From a process that has PyTorch and nothing of the script; also for "forkserver".
    FORK = "fork"  # From the script's own process, with all that it holds.


@dataclass(frozen=True)
class Request:
    """One call of torch.multiprocessing.start_processes."""

    number: int  # Among those of the script, from 0.
    count: int  # Of processes.
    called: str  # The script's line.
    environment: Mapping[str, str] = field(default_factory=dict)
    preparation: bytes = b""  # As multiprocessing.spawn makes it, pickled.
    body: bytes = b""  # The function and its arguments, pickled.


class Files:
    """What the processes of one such job leave for one another in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def request(self, number: int) -> Path:
        return self._folder / f"{number}.request"

    def outcome(self, number: int) -> Path:
        return self._folder / f"{number}.outcome"

    def error(self, number: int, index: int) -> Path:
        """The traceback of a process whose function raised."""
        return self._folder / f"{number}.error.{index}"

    def pid(self, number: int, index: int) -> Path:
        return self._folder / f"{number}.pid.{index}"

    def meeting(self) -> Path:
        """The socket at which processes meet that become ranks."""
        return self._folder / "meeting"

    def of_multiprocessing(self) -> Path | None:
        """The folder for sockets of multiprocessing's own. None where their paths would be too long for a socket."""
        folder = self._folder / "p"
        if len(os.fsencode(folder / "listener-12345678")) > _LONGEST_SOCKET:
            return None
        folder.mkdir(exist_ok=True)
        return folder

    def lost_output(self) -> Path:
        """The number of the error by which a coordinator could not print any more."""
        return self._folder / "lost"

    def taken(self, pid: int) -> Path:
        """Holds the number of the job that a process is a rank of."""
        return self._folder / f"{pid}.taken"

    def of_none(self) -> Path:
        """Names the script's line that started no processes at all."""
        return self._folder / "of-none"

    def new_number(self) -> int:
        """Of a job that has none."""
        number = 0
        while True:
            try:
                (self._folder / f"{number}.number").touch(exist_ok=False)
                return number
            except FileExistsError:
                number += 1

    def leave_outcome(self, number: int, outcome: Outcome) -> None:
        """It is there as a whole or not at all."""
        whole = self._folder / f"{number}.whole"
        whole.write_bytes(pickle.dumps(outcome))
        whole.rename(self.outcome(number))

    def outcome_of(self, number: int) -> Outcome | None:
        """None while the job runs."""
        path = self.outcome(number)
        return pickle.loads(path.read_bytes()) if path.exists() else None

    def outcomes(self) -> list[Outcome]:
        """Of all jobs that have ended, in the order of the calls."""
        paths = sorted(self._folder.glob("*.outcome"), key=lambda path: int(path.name.partition(".")[0]))
        return [pickle.loads(path.read_bytes()) for path in paths]


# -- passing the function over, as a spawned process takes it
class _Passed:
    """A descriptor on its way: its place among those that are sent with the request."""

    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        return os.dup(_received[self._index])


class _Popen:
    """What multiprocessing asks while it pickles for a process that it spawns."""

    DupFd = _Passed

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def duplicate_for_child(self, descriptor: int) -> int:
        self.descriptors.append(os.dup(descriptor))
        return len(self.descriptors) - 1


def pickled_for_spawn(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bytes, bytes, list[int]]:
    """Raises what a real spawn raises for what cannot be pickled, such as a lambda.

    Returns: the preparation of the new process, the function with its arguments, and descriptors to send along.
    """
    popen = _Popen()
    context.set_spawning_popen(popen)  # type: ignore[arg-type]
    try:
        parts = []
        for value in (multiprocessing_spawn.get_preparation_data("SpawnProcess"), (fn, args)):
            reduction.dump(value, part := io.BytesIO())
            parts.append(part.getvalue())
    finally:
        context.set_spawning_popen(None)
    return parts[0], parts[1], popen.descriptors


# -- in the process that is a rank
@dataclass(frozen=True)
class Program:
    """What each rank of such a job does."""

    request: Request
    folder: str
    load: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]  # The function and its arguments.

    def __call__(self) -> None:
        files, number, index = Files(self.folder), self.request.number, _index()
        files.pid(number, index).write_text(f"{os.getpid()}\n")
        fn, args = self.load()
        process.current_process().name = f"SpawnProcess-{index + 1}"
        try:
            fn(index, *args)
        except Exception as error:
            files.error(number, index).write_text(traceback.format_exc())
            raise Failed(text_of(error)) from None


def _index() -> int:
    rank = current()
    assert rank is not None
    return rank.place.rank


def loader(request: Request, descriptors: list[int]) -> Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Imports the script and takes the function, as a process that was spawned does."""
    def load() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        run = os.environ.get("LOCKSTEP_RUN", "")
        os.environ.clear()
        os.environ.update({**request.environment, "LOCKSTEP_RUN": run})
        _received[:] = descriptors
        this: Any = process.current_process()
        this._inheriting = True  # A script without `if __name__ == "__main__"` is refused, as by Python.
        try:
            multiprocessing_spawn.prepare(pickle.loads(request.preparation))
            fn, args = pickle.loads(request.body)
        finally:
            del this._inheriting
        return fn, args
    return load
