"""`lockstep run SCRIPT`: a script that starts its ranks itself, as one process.

With torch.multiprocessing.spawn or start_processes:

    the command ──forks──> the script ──asks──> the command ──forks──> the ranks        (spawn, forkserver)
                           the script ──forks──> a coordinator ──forks──> the ranks     (fork)

A rank that is spawned knows nothing of the script but what it is passed, hence the first of the two ways.
With multiprocessing.Process:

    the command ──forks──> the script ──starts──> processes ──open a group──> the command, of which they become ranks"""
from __future__ import annotations

import dataclasses
import multiprocessing
import os
import pickle
import select
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep import terminal
from lockstep.command_line import Usage
from lockstep.virtual import launch, rank, spawn_request
from lockstep.virtual.device import PRETENDING
from lockstep.virtual.meeting import Meeting, attempt
from lockstep.virtual.options import Options
from lockstep.virtual.spawn_request import Files, Request, Start

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.virtual.launch import Outcome

_MESSAGE_BYTES = 1 << 16


@dataclass(frozen=True)
class _Job:
    """What all calls of spawn in one run of the script have in common."""

    given: Options
    seed: int
    trace: str
    quiet: bool
    folder: str  # Where requests and outcomes lie.

    def run(self, request: Request, load: Callable[[], Any], inherits_random: bool) -> None:
        """Runs the ranks of a request to their end, and leaves the outcome."""
        given = self._given(request.count, inherits_random)
        outcome = launch.run_ranks(given, self.seed, self._trace(request.number), self.quiet,
                                   spawn_request.Program(request, self.folder, load))
        outcome.called = request.called
        Files(self.folder).leave_outcome(request.number, outcome)

    def run_joined(self, meeting: Meeting) -> None:
        """Runs those who have come as ranks to their end, and leaves the outcome."""
        files = Files(self.folder)
        number = files.new_number()
        world, members = meeting.take()
        outcome = launch.run_ranks(self._given(world, False), self.seed, self._trace(number), self.quiet, _nothing,
                                   attempt(members, files, number))
        outcome.called = meeting.called
        files.leave_outcome(number, outcome)

    def _given(self, count: int, inherits_random: bool) -> Options:
        return dataclasses.replace(self.given, ranks=count, per_node=count, spawned=True, inherits_random=inherits_random)

    def _trace(self, number: int) -> str:
        return self.trace and (self.trace if number == 0 else str(Path(self.trace) / f"spawn-{number + 1}"))


def _nothing() -> None:
    """What a process runs that is a rank already."""


def run(given: Options, seed: int, trace: str, quiet: bool) -> Outcome:
    """Runs the script once. Returns: the outcome of the first of its jobs that did not end well, or of its last.

    Raises:
        Usage: it started no ranks.
    """
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        code, lines = _run_script(_Job(given, seed, trace, quiet, folder))
        outcomes, none, lost = Files(folder).outcomes(), Files(folder).of_none(), Files(folder).lost_output()
        line = none.read_text() if none.exists() else ""
        if lost.exists():
            terminal.lose(int(lost.read_text()))
    if not outcomes:
        if code:
            raise launch.ScriptFailed(code)
        raise Usage(_why_none(given.program, line))
    decisive = next((each for each in outcomes if not each.ok), outcomes[-1])
    decisive.others = [each for each in outcomes if each is not decisive]
    decisive.script_code = code if decisive.found["outcome"] == "ok" else 0
    decisive.lines = [*((-1, line) for line in lines), *(line for each in outcomes for line in each.lines)]
    return decisive


def _why_none(program: str, line: str) -> str:
    """Why no rank was started.

    Args:
        line: of the script, that started no processes; "": there is none.
    """
    if line:
        return (f"{line}: starts 0 processes: nothing was simulated; where a script starts one for each GPU: "
                f"--device {PRETENDING}:N")
    return (f"{program}: called neither spawn nor start_processes of torch.multiprocessing, and no multiprocessing.Process opened "
            "a process group: nothing was simulated; where a launcher starts its ranks: lockstep torchrun --nproc-per-node N")


def _run_script(job: _Job) -> tuple[int, list[str]]:
    """Returns: the script's exit code, and what it printed where that is not shown."""
    mine, scripts = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sys.stdout.flush()
    sys.stderr.flush()
    printed = Path(job.folder) / "printed"
    parent = os.getpid()
    script = os.fork()
    if script == 0:
        mine.close()
        _be_script(parent, job, scripts, printed)
    scripts.close()
    meeting = Meeting(Files(job.folder))
    try:
        code = _serve(job, mine, script, meeting)
    except BaseException:
        os.kill(script, signal.SIGKILL)
        os.waitpid(script, 0)
        meeting.kill()
        raise
    finally:
        mine.close()
        meeting.close()
    return code, printed.read_text(errors="replace").splitlines() if job.quiet else []


def _serve(job: _Job, end: socket.socket, script: int, meeting: Meeting) -> int:
    """Runs what the script asks for until it has ended. Returns: its exit code."""
    ended = os.pidfd_open(script)
    try:
        while True:
            # A script that closes its end goes on without it.
            wakers = [ended, meeting.listener, *meeting.ends, *([end] if end.fileno() >= 0 else [])]
            ready, _, _ = select.select(wakers, [], [])
            if end in ready:
                _answer(job, end, meeting)
            if meeting.listener in ready:
                meeting.accept()
            meeting.drop_ended()
            if meeting.is_complete() or meeting.is_in_vain(ended in ready):
                job.run_joined(meeting)
            elif ended in ready:
                return os.waitstatus_to_exitcode(os.waitpid(script, 0)[1])
    finally:
        os.close(ended)


def _answer(job: _Job, end: socket.socket, meeting: Meeting) -> None:
    """Does what the script asks for, or notes what it reports."""
    message, descriptors, _, _ = socket.recv_fds(end, _MESSAGE_BYTES, spawn_request.MOST_DESCRIPTORS)
    if not message:
        end.close()
    elif not descriptors:
        meeting.note(pickle.loads(message))
    else:
        request = pickle.loads(Files(job.folder).request(int(message)).read_bytes())
        done, *passed = descriptors
        job.run(request, spawn_request.loader(request, passed), inherits_random=False)
        os.write(done, b".")
        for descriptor in descriptors:
            os.close(descriptor)


def _be_script(parent: int, job: _Job, end: socket.socket, printed: Path) -> None:
    """The process of the script. Does not return."""
    code = 1
    try:
        rank.die_with_parent(parent)
        outputs = None
        if job.quiet:
            file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            outputs = file, os.dup(file)
        rank.as_new_interpreter((job.given.program, *job.given.arguments), outputs)
        # What processes that are ended leave of their own is removed with what the job leaves.
        sockets = Files(job.folder).of_multiprocessing()
        if sockets is not None:
            configuration = multiprocessing.current_process()._config  # type: ignore[attr-defined]
            configuration["tempdir"] = str(sockets)
        _install(job, end)
        code = rank.run_alone(rank.Script(job.given.program, job.given.is_module))
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_script(script: int, job: _Job) -> None:
    """Its job has been interrupted. Where the command has been as well, nothing is left to do."""
    lost = terminal.lost()
    if lost is not None:
        Files(job.folder).lost_output().write_text(str(lost.number))
        os.kill(script, signal.SIGKILL)


def _install(job: _Job, end: socket.socket) -> None:
    from lockstep.virtual import process_ranks, spawn

    def start(request: Request, how: Start, fn: Callable[..., Any], args: tuple[Any, ...], descriptors: list[int],
              done: int) -> None:
        if how is Start.SPAWN:
            spawn.send(end, request, job.folder, [done, *descriptors])
            return
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        if os.fork() == 0:
            try:
                rank.die_with_parent(parent)
                end.close()
                job.run(request, lambda: (fn, args), inherits_random=True)
                os.write(done, b".")
            except (KeyboardInterrupt, terminal.OutputLost):
                _end_script(parent, job)
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                os._exit(0)

    spawn.install(start, job.folder)
    process_ranks.install(end, job.folder, job.seed, job.given.device.of_script())
