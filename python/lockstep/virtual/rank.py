"""What a process forked from the zygote does to be one rank: from the fork to its last line."""
from __future__ import annotations

import atexit
import ctypes
import logging
import os
import runpy
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from multiprocessing import util
from typing import TYPE_CHECKING, Any

from lockstep.exception_text import UNSPEAKABLE, text_of
from lockstep.virtual import clock, random_state, wire
from lockstep.virtual.arena import Arena
from lockstep.virtual.connection import Connection, Stopped
from lockstep.virtual.device import Device
from lockstep.virtual.wire import PointKind
from lockstep.virtual.works import Calls

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from lockstep.torch.recorder import Recorder
    from lockstep.virtual.step_values import Watch

_PR_SET_PDEATHSIG = 1
EXIT_STOPPED = 3
_MOST_CODE = (1 << 31) - 1
_current: list[Rank] = []


@dataclass(frozen=True)
class Place:
    """Which rank a process is, as torchrun's environment variables have it."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    node: int
    nodes: int
    attempt: int
    environment: dict[str, str]  # Variables of the whole job.
    launched: bool = True  # By a launcher; otherwise by the script itself, and variables tell it nothing.

    def variables(self) -> dict[str, str]:
        if not self.launched:
            return self.environment
        own = {"RANK": self.rank, "WORLD_SIZE": self.world, "LOCAL_RANK": self.local_rank,
               "LOCAL_WORLD_SIZE": self.local_world, "GROUP_RANK": self.node,
               "GROUP_WORLD_SIZE": self.nodes, "ROLE_RANK": self.rank, "ROLE_WORLD_SIZE": self.world,
               "TORCHELASTIC_RESTART_COUNT": self.attempt}
        return {**self.environment, **{name: str(value) for name, value in own.items()}}


@dataclass(frozen=True)
class Settings:
    """What all ranks of a job are started with."""

    seed: int = 0
    clock: clock.ClockMode = clock.ClockMode.REAL
    trace: str = ""  # The folder that is recorded into; "": none.
    budget: float = 0.0
    device: Device = Device()
    steps: int = 0  # The rank ends after this many; 0 = when its program does.
    torn: tuple[tuple[int, int, int], ...] = ()  # Saves that are cut short: rank, number, percent.
    watch: Watch | None = None  # What is compared with one rank is kept.
    inherits_random: bool = False  # Random states are those of the process that was forked.
    seeds: bool = True  # False: the process has been running and seeds nothing any more.


class Failed(Exception):
    """Raised by a program that has already said what went wrong: nothing is printed."""


class Rank:
    """This process as a virtual rank."""

    def __init__(self, place: Place, end: socket.socket, memory: mmap.mmap) -> None:
        self.place = place
        self.connection = Connection(end, place.rank, place.world)
        self.calls = Calls(self.connection, Arena(memory))
        self.recorder: Recorder | None = None

    def scope(self) -> int:
        """The number of the name of what is going on, such as DDP's backward."""
        name = self.recorder.scope if self.recorder is not None else ""
        return self.connection.name(name) if name else wire.NO_NAME


def die_with_parent(parent: int) -> None:
    """However the coordinator ends, no rank is left."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_STOPPED)


def current() -> Rank | None:
    """The rank that this process is."""
    return _current[0] if _current and _current[0].connection.is_mine else None


def become(place: Place, end: socket.socket, memory: mmap.mmap, settings: Settings) -> Rank:
    """Makes this process the rank: from now on torch.distributed goes to the coordinator."""
    from lockstep.virtual import cut_short, pretended, redirect, spawn

    os.environ.update(place.variables())
    rank = Rank(place, end, memory)
    _current.append(rank)
    redirect.install(rank)
    spawn.refuse(rank)
    pretended.install(settings.device.of_node(place.local_world))
    if settings.seeds:
        random_state.seed_rank(settings.seed, place.rank, place.attempt, settings.inherits_random)
    cut_short.install(settings.steps, {save: percent for number, save, percent in settings.torn if number == place.rank},
                      lambda: _flush(rank))
    if settings.watch is not None:
        from lockstep.virtual import step_values

        step_values.install(settings.watch, place.rank)
    if settings.trace:
        _record(rank, settings)
    rank.connection.on_stop = lambda text: _flush(rank)
    rank.connection.point(PointKind.YIELD)
    clock.install(rank.connection, settings.clock)
    return rank


def _record(rank: Rank, settings: Settings) -> None:
    from lockstep.torch import start

    rank.recorder = start(settings.trace, settings.budget)


def _flush(rank: Rank) -> None:
    """The rank is stopped: what it recorded is kept. Its end is written by who knows why."""
    recorder = rank.recorder
    if recorder is not None and recorder.pen is not None:
        pen, recorder.pen = recorder.pen, None
        pen.flush()


def run_program_as(place: Place, end: socket.socket, memory: mmap.mmap, settings: Settings,
                   program: Callable[[], Any]) -> int:
    """Becomes the rank and runs the program. Returns: the exit code."""
    try:
        rank = become(place, end, memory, settings)
    except Stopped:
        return EXIT_STOPPED
    return run_program(rank, program)


def run_program(rank: Rank, program: Callable[[], Any]) -> int:
    """Runs the program as an interpreter would, to its end. Returns: the exit code."""
    try:
        code, text = _call(program)
        _finish_recording(rank, text)
        atexit._run_exitfuncs()
        if rank.connection.is_mine:  # Otherwise a process that the program has forked comes to its end here.
            rank.connection.end(code, text)
    except Stopped:
        code = EXIT_STOPPED
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def end_with(rank: Rank, code: int, text: str) -> None:
    """A rank that is not run by run_program says how it ended. Raises Stopped."""
    _finish_recording(rank, text)
    rank.connection.end(code, text)


def run_alone(program: Callable[[], Any]) -> int:
    """The same in a process of its own, which belongs to no job."""
    code, _ = _call(program)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _call(program: Callable[[], Any]) -> tuple[int, str]:
    """Returns: the exit code and what to say of it. Raises Stopped."""
    code, text = 0, ""
    try:
        program()
    except SystemExit as error:
        code, text = _code_of(error)
    except Stopped:
        raise
    except Failed as error:
        code, text = 1, str(error)
    except BaseException as error:
        code, text = 1, text_of(error)
        _show(error.with_traceback(_of_program(error.__traceback__)))
    threading._shutdown()  # type: ignore[attr-defined]
    return code, text


def _show(error: BaseException) -> None:
    """As Python does at its end: a program may have replaced the hook by one that fails, or by nothing."""
    if getattr(sys, "excepthook", None) is None:
        print("sys.excepthook is missing", file=sys.stderr)
        sys.excepthook = sys.__excepthook__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as trouble:
        print("Error in sys.excepthook:", file=sys.stderr)
        trouble = trouble.with_traceback(_of_program(trouble.__traceback__))
        sys.__excepthook__(type(trouble), trouble, trouble.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)


def _code_of(error: SystemExit) -> tuple[int, str]:
    if error.code is None or isinstance(error.code, int):
        code = error.code or 0
        if abs(code) > _MOST_CODE:
            code = -1  # What Python makes of it.
        return code, f"exit code {code}" if code else ""
    try:
        print(error.code, file=sys.stderr)
        return 1, str(error.code)
    except Exception:
        return 1, UNSPEAKABLE


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames that started the program."""
    ours = (os.path.dirname(__file__), runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_next is not None and \
            trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    return trace


def _finish_recording(rank: Rank, exception: str) -> None:
    if rank.recorder is not None:
        from lockstep.torch.ending import finish

        rank.recorder.exception = exception
        finish(rank.recorder)


def as_new_interpreter(arguments: Sequence[str], outputs: tuple[int, int] | None) -> None:
    """Leaves what the zygote registered for its own end, and takes the program's arguments and output."""
    atexit._clear()
    util._finalizer_registry.clear()  # type: ignore[attr-defined]
    util._run_after_forkers()  # type: ignore[attr-defined]
    atexit.register(logging.shutdown)
    atexit.register(util._exit_function)  # type: ignore[attr-defined]
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setpgrp()  # The terminal's interrupts go to the coordinator, which ends the ranks.
    sys.argv = list(arguments)
    if outputs is not None:
        for number, end in zip((1, 2), outputs):
            os.dup2(end, number)
            os.close(end)
        # As under a launcher whose output is a terminal: lines appear when they are written.
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


@dataclass(frozen=True)
class Script:
    """The program that is a file, or a module (-m)."""

    name: str
    is_module: bool

    def __call__(self) -> None:
        if self.is_module:
            sys.path[0] = os.getcwd()
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(self.name))
            runpy.run_path(self.name, run_name="__main__")
