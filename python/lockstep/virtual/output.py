"""What ranks print, line by line, each with its rank before it."""
from __future__ import annotations

import os
import selectors
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK = 1 << 16


def pipes() -> tuple[tuple[int, int], tuple[int, int]]:
    """The readers, then the writers, of a rank's output and its errors."""
    output, errors = os.pipe(), os.pipe()
    return (output[0], errors[0]), (output[1], errors[1])


class Printer:
    """Copies what ranks write to this process's own output and errors.

    Args:
        prefix: lines begin with "[rank 3] ".
        folder: each rank's lines go into DIR/RANK/stdout.log and stderr.log as well; "" = nowhere.
        quiet: they are not printed.

    Whatever becomes of what is copied, it is read: a rank would wait forever to write into a pipe that is full.
    """

    def __init__(self, prefix: bool = True, folder: str = "", quiet: bool = False) -> None:
        self._prefix = prefix
        self._folder = folder
        self._quiet = quiet
        self._thread: threading.Thread | None = None
        self.lines: list[tuple[int, str]] = []  # Rank and line, of output and errors.

    def follow(self, readers: Sequence[tuple[int, tuple[int, int]]]) -> None:
        self._thread = threading.Thread(target=self._run, args=(readers,), name="lockstep output", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Waits until everything is printed. Requires: the ranks have ended."""
        if self._thread is not None:
            self._thread.join(5.0)  # A process that a rank left running may hold its output open.
            self._thread = None

    def _run(self, readers: Sequence[tuple[int, tuple[int, int]]]) -> None:
        selector = selectors.DefaultSelector()
        rests: dict[tuple[int, int], bytes] = {}
        for rank, ends in readers:
            for number, end in zip((1, 2), ends):
                selector.register(end, selectors.EVENT_READ, (rank, number))
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, CHUNK)
                *lines, rest = (rests.pop(key.data, b"") + data).split(b"\n")
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    lines, rest = [rest] if rest else [], b""
                rank, number = key.data
                for line in lines:
                    self._write(rank, number, line)
                if rest:
                    rests[key.data] = rest

    def _write(self, rank: int, number: int, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        self.lines.append((rank, text))
        if self._folder:
            self._keep(Path(self._folder) / str(rank), "stdout.log" if number == 1 else "stderr.log", text)
        if self._quiet:
            return
        try:
            terminal.show(f"[rank {rank}] {text}" if self._prefix else text, errors=number == 2)
        except terminal.OutputLost:
            self._quiet = True
            os.kill(os.getpid(), signal.SIGINT)  # Ends the ranks; saying knows why.

    def _keep(self, folder: Path, name: str, text: str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("a", encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError as error:
            terminal.warn(f"lockstep: {error.filename or folder / name}: {error.strerror}: what ranks print is not kept any more")
            self._folder = ""
