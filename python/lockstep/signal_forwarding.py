"""Signals that end a job: who starts one passes on what was sent to itself alone.

What a terminal sends, or `kill` with the number of a group, the job has been sent as well, and a launcher that gets it twice
may leave its ranks running. A witness, which is a process of the same group and does nothing else, shows which it was.
"""
from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
WITNESSED_S = 0.2  # Within which the witness of a group has reported a signal.


class PassingOn:
    """From the moment it is made. Requires: a process of one thread."""

    def __init__(self) -> None:
        self.first = 0  # The first signal that was meant for the job.
        self._job: subprocess.Popen[bytes] | None = None
        self._ignored = {number for number in SIGNALS if signal.getsignal(number) is signal.SIG_IGN}
        self._taken = [number for number in SIGNALS if number is not signal.SIGHUP or number not in self._ignored]  # nohup.
        self._seen = bytearray()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._end, far = socket.socketpair()
        self._witness = os.fork()
        if self._witness == 0:
            self._end.close()
            _be_witness(far)
        far.close()
        for number in self._taken:
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def ignore_what_was_ignored(self) -> None:
        """In the process of the job, before its program."""
        for number in self._ignored:
            signal.signal(number, signal.SIG_IGN)

    def to(self, job: subprocess.Popen[bytes]) -> None:
        self._job = job
        if self.first:
            job.send_signal(self.first)

    def stop(self) -> None:
        """The job is over: signals end this process."""
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)
        self._end.close()
        os.waitpid(self._witness, 0)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        witnessed = self._is_witnessed(number)
        if witnessed and number in self._ignored:
            return  # As it is by the job.
        self.first = self.first or number
        if not witnessed and self._job is not None:
            self._job.send_signal(number)

    def _is_witnessed(self, number: int) -> bool:
        until = time.monotonic() + WITNESSED_S
        while number not in self._seen:
            if not select.select([self._end], [], [], max(0.0, until - time.monotonic()))[0]:
                return False
            reported = self._end.recv(64)
            if not reported:
                return False
            self._seen += reported
        self._seen = self._seen.replace(bytes([number]), b"")
        return True


def _be_witness(end: socket.socket) -> None:
    """Writes the number of each signal into the socket, until its other end is closed. Does not return."""
    try:
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        end.setblocking(False)
        signal.set_wakeup_fd(end.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        select.select([end], [], [])
    finally:
        os._exit(0)
