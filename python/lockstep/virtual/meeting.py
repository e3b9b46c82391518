"""Where processes that a script started with multiprocessing.Process become the ranks of a job (process_ranks.py): in the process of
`lockstep run`, which coordinates them."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import select
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.virtual import wire
from lockstep.virtual.zygote import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lockstep.virtual.output import Printer
    from lockstep.virtual.rank import Place, Settings
    from lockstep.virtual.spawn_request import Files
    from lockstep.virtual.zygote import Coordinated

_MOST_BYTES = 1 << 16  # Of a message.
_ABSENT = 1  # The exit code of a rank that no process became.


@dataclass(frozen=True)
class Wanted:
    """A process says which rank it wants to be."""

    pid: int
    rank: int
    world: int
    called: str  # The script's line.


@dataclass(frozen=True)
class Started:
    """The script has started a process."""

    pid: int
    called: str  # The script's line.


@dataclass(frozen=True)
class Waits:
    """The script does nothing but wait for a process to end, however long that takes."""

    pid: int


@dataclass(frozen=True)
class GoesOn:
    """It waits no longer."""


Notice = Started | Waits | GoesOn  # From the script.


@dataclass(frozen=True)
class Member:
    wanted: Wanted
    end: socket.socket

    def refuse(self, why: str) -> None:
        self.end.send(why.encode())
        self.end.close()


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """The same file under a name that is short enough for a socket, however long the folder's is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def knock(files: Files, wanted: Wanted) -> tuple[bytes, list[int]]:
    """Comes to the meeting, in the process that wants to be a rank, and waits until the others have come. Returns: the
    answer, and the descriptors that came with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        with _short(files.meeting()) as path:
            end.connect(path)
        end.send(pickle.dumps(wanted))
        message, descriptors, _, _ = socket.recv_fds(end, _MOST_BYTES, 2)
    return message, descriptors


class Meeting:
    """Gathers processes until all ranks of a job are there, or no more can come."""

    def __init__(self, files: Files) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with _short(files.meeting()) as path:
            self.listener.bind(path)
        self.listener.listen(socket.SOMAXCONN)
        self._members: dict[int, Member] = {}
        self._alive: dict[int, int] = {}  # What the script has started: process -> a descriptor that is readable at its end.
        self._waits_for = 0  # The process whose end the script waits for; 0: none.
        self.called = ""  # The script's line that started the first.

    def close(self) -> None:
        self.listener.close()
        for member in self._members.values():
            member.end.close()
        for descriptor in self._alive.values():
            os.close(descriptor)

    @property
    def ends(self) -> list[int]:
        """Readable when a process has ended."""
        return list(self._alive.values())

    def kill(self) -> None:
        """Ends all that the script has left."""
        for descriptor in self._alive.values():
            try:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def note(self, notice: Notice) -> None:
        if isinstance(notice, Started):
            self.called = self.called or notice.called
            try:
                self._alive[notice.pid] = os.pidfd_open(notice.pid)
            except ProcessLookupError:
                pass
        else:
            self._waits_for = notice.pid if isinstance(notice, Waits) else 0

    def accept(self) -> None:
        """One process more."""
        end, _ = self.listener.accept()
        message = end.recv(_MOST_BYTES)
        if not message:
            end.close()
            return
        member = Member(pickle.loads(message), end)
        wanted, others = member.wanted, [each.wanted for each in self._members.values()]
        who = f"init_process_group of rank {wanted.rank} of {wanted.world}"
        if wanted.rank >= wanted.world:
            member.refuse(f"{who}: there is no such rank")
        elif wanted.rank in self._members:
            member.refuse(f"{who}: process {self._members[wanted.rank].wanted.pid} is this rank already")
        elif others and others[0].world != wanted.world:
            member.refuse(f"{who}: rank {others[0].rank} waits to be one of {others[0].world}")
        else:
            self._members[wanted.rank] = member

    def drop_ended(self) -> None:
        ready = select.select(self.ends, [], [], 0)[0]
        for pid, descriptor in list(self._alive.items()):
            if descriptor in ready:
                os.close(descriptor)
                del self._alive[pid]

    def is_complete(self) -> bool:
        return bool(self._members) and len(self._members) == self._world()

    def is_in_vain(self, script_ended: bool) -> bool:
        """Whether some have come, and no process is left or will be started that could be one of the others. The script
        starts none while it waits for one that is alive; where that has ended, it is about to go on."""
        if not self._members or not (script_ended or self._waits_for in self._alive):
            return False
        here = {member.wanted.pid for member in self._members.values()}
        none_knocks = not select.select([self.listener], [], [], 0)[0]
        return none_knocks and self._alive.keys() <= here

    def _world(self) -> int:
        return next(iter(self._members.values())).wanted.world

    def take(self) -> tuple[int, dict[int, Member]]:
        """Returns: how many ranks the job has, and those that have come."""
        world, members = self._world(), self._members
        self._members = {}
        return world, members


def attempt(members: dict[int, Member], files: Files, number: int) -> Callable[..., Any]:
    """What runs the ranks of one job, in place of zygote.run_attempt."""
    def run(places: Sequence[Place], settings: Settings, how: Coordinated, _arguments: Sequence[str],
            _program: Callable[[], Any], _printer: Printer, store: Sequence[bytes] = ()) -> Any:
        world = World(len(places), how.arena_mb << 20, passed=True)
        settings = dataclasses.replace(settings, seeds=False)
        pids = []
        for place, (_, own), memory in zip(places, world.pairs, world.passed_descriptors):
            member = members.get(place.rank)
            pids.append(0 if member is None else member.wanted.pid)
            if member is None:
                _say_absent(own, place.rank)
                continue
            files.taken(member.wanted.pid).write_text(str(number))
            try:
                socket.send_fds(member.end, [pickle.dumps((place, settings, world.arena_bytes))], [own.fileno(), memory])
            except OSError:
                pass  # It has ended: the coordinator says so.
            member.end.close()
        return world.coordinate(pids, how, store)
    return run


def _say_absent(own: socket.socket, rank: int) -> None:
    body = wire.encode_end(_ABSENT, f"no process opened its group as rank {rank}, and none is left that could")
    for packet in wire.packets(wire.RequestKind.END, 0, 0, body):
        own.send(packet)
