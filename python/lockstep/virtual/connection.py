"""A rank's one connection to the coordinator, and everything that is asked through it."""
from __future__ import annotations

import linecache
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING

from lockstep.torch.sites import shown, site
from lockstep.virtual import wire
from lockstep.virtual.wire import PointKind, Reply, ReplyKind, RequestKind, StoreOp, ValueStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

MOST_FRAMES = 40
FRAMES_OF_OTHERS = 6
_START = os.path.join(os.path.dirname(__file__), "rank.py")


class Stopped(BaseException):
    """The rank must end now. Not an Exception: a program that catches everything it knows still ends."""


class Refused(RuntimeError):
    """What cannot be simulated; the message names it."""


class Connection:
    """Requests of this process. Used by one thread at a time; others wait for their turn.

    A process that is forked from a rank is another process: it must not speak on the rank's socket,
    and every request of its raises Refused.
    """

    def __init__(self, end: socket.socket, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world
        self.now_ns = 0  # Virtual time, as the last reply had it.
        self.on_stop: Callable[[str], None] = lambda text: None
        self._socket = end
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._names: dict[str, int] = {}
        self._n_tickets = 0
        self._stopped: str | None = None
        os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        self._socket.close()
        self._lock = threading.RLock()  # The parent's other threads may hold the old one.

    @property
    def is_mine(self) -> bool:
        """False in a process forked from the rank, such as a loader's worker."""
        return os.getpid() == self._process

    def new_ticket(self) -> int:
        self._n_tickets += 1
        return self._n_tickets

    def name(self, text: str) -> int:
        """The number of a text, which travels once."""
        known = self._names.get(text)
        if known is None:
            if len(self._names) >= wire.MAX_NAMES:
                return wire.NO_NAME
            known = self._names[text] = len(self._names)
            self.send(RequestKind.NAME, body=wire.encode_name(known, text))
        return known

    def here(self) -> tuple[int, int]:
        """The user's line that is running, as a name and a line number."""
        file, line = site(sys._getframe(1))
        return (self.name(file), line) if file else (wire.NO_NAME, 0)

    def send(self, kind: RequestKind, *, flags: int = 0, ticket: int = 0, body: bytes = b"") -> None:
        """Sends without waiting for anything."""
        if not self.is_mine:
            raise Refused(
                f"process {os.getpid()} was forked from rank {self.rank}: such a process cannot use "
                f"torch.distributed under lockstep torchrun ({kind.name} refused)")
        if self._stopped is not None:
            raise Stopped(self._stopped)
        with self._lock:
            try:
                for packet in wire.packets(kind, flags, ticket, body):
                    self._socket.send(packet)
            except OSError:
                self._stop_with("the coordinator is gone")

    def ask(self, kind: RequestKind, *, flags: int = 0, ticket: int = 0, body: bytes = b"") -> Reply:
        """Sends, and waits for the answer. Raises Stopped."""
        with self._lock:
            self.send(kind, flags=flags, ticket=ticket, body=body)
            return self._answer()

    def _answer(self) -> Reply:
        body = b""
        while True:
            try:
                packet = self._socket.recv(wire.MAX_PACKET)
            except OSError:
                packet = b""
            if not packet:
                self._stop_with("the coordinator is gone")
            kind, status, ticket, now = wire.REPLY.unpack_from(packet)
            body += packet[wire.REPLY.size:]
            self.now_ns = now
            if status & wire.MORE:
                continue
            if kind == ReplyKind.ASK_STACK:
                self.send(RequestKind.STACK, body=stack_text(sys._getframe(1)).encode("utf-8", "replace"))
                body = b""
            elif kind == ReplyKind.STOP:
                self._stop_with(body.decode("utf-8", "replace"))
            else:
                return Reply(ReplyKind(kind), status, ticket, now, body)

    def _stop_with(self, text: str) -> None:
        if self._stopped is None:
            self._stopped = text
            self.on_stop(text)
        raise Stopped(text)

    def value(self, kind: RequestKind, *, flags: int = 0, body: bytes = b"") -> bytes:
        """A request that is answered with VALUE.

        Raises:
            TimeoutError, KeyError: its status.
            Refused: the request breaks a contract; the message says which.
            RuntimeError: a planned fault.
        """
        reply = self.ask(kind, flags=flags, body=body)
        if reply.status == ValueStatus.OK:
            return reply.body
        errors: dict[int, type[Exception]] = {
            ValueStatus.TIMED_OUT: TimeoutError,
            ValueStatus.CONTRACT: Refused}
        raise errors.get(reply.status, RuntimeError)(reply.text)

    # -- what is asked
    def open_group(self, name: str, members: list[int]) -> int:
        number = self.name(name)
        file, line = self.here()
        return int(wire.I32.unpack(self.value(
            RequestKind.OPEN_GROUP, body=wire.encode_group(number, members, file, line)))[0])

    def store(self, op: StoreOp, key: bytes, value: bytes = b"", expected: bytes = b"",
              timeout_ns: int = wire.NO_TIMEOUT, flags: int = 0) -> bytes:
        file, line = self.here()
        return self.value(RequestKind.STORE, flags=flags,
                          body=wire.encode_store(op, timeout_ns, key, value, expected, file, line))

    def sleep(self, nanoseconds: int) -> None:
        self.value(RequestKind.SLEEP, body=wire.I64.pack(max(0, nanoseconds)))

    def point(self, kind: PointKind, thing: int = 0) -> None:
        self.value(RequestKind.POINT, body=wire.encode_point(kind, thing))

    def end(self, code: int, text: str) -> None:
        self.send(RequestKind.END, body=wire.encode_end(code, text))


def stack_text(frame: FrameType | None) -> str:
    """Where this thread is, the innermost line first: the program's own frames, or PyTorch's where the
    program has none here."""
    own: list[str] = []
    others: list[str] = []
    while frame is not None and len(own) < MOST_FRAMES:
        code = frame.f_code
        if code.co_filename == _START and code.co_name == "run_program":
            break  # What lies beyond started the program.
        name = shown(code.co_filename)
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        text = f"{name or code.co_filename}:{frame.f_lineno} in {code.co_name}: {line}"
        if name:
            own.append(text)
        elif f"{os.sep}lockstep{os.sep}" not in code.co_filename and len(others) < FRAMES_OF_OTHERS:
            others.append(text)
        frame = frame.f_back
    return "\n".join(own or others)
