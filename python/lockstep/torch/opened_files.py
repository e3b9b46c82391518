"""The seam to files of the program's own: which ones a rank opens by `open`, to write or to read them. What they hold is
not looked at. Files that are never opened by that function, such as those of libraries in C++, are not seen. A program that
locks files lets its ranks wait for each other by them: from its first lock on, none is recorded."""
from __future__ import annotations

import builtins
import fcntl
import io
import os
import threading
from typing import TYPE_CHECKING, Any

from lockstep.torch.files import path_of, shown_path
from lockstep.torch.sites import is_installed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "opened"
MOST = 256  # Of each kind, a file counting once per step: a data set may have one per sample, and the first are those before it.
_SYSTEM = tuple(os.sep + name + os.sep for name in ("dev", "proc", "sys"))
_CODE = (".py", ".pyc", ".so", ".lock")


class Opened:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._thread = threading.get_ident()  # The rank's: what others do is in no order with its calls.
        self._known: dict[str, set[tuple[str, int]]] = {"write": set(), "extend": set(), "open": set()}
        self.locks = False  # The program locks files.

    def note(self, file: Any, mode: str) -> None:
        """Before a file is opened: from then on it may be a part of one, and another rank may be reading it."""
        recorder = self._recorder
        pen, place = recorder.pen, recorder.current
        # A budget leaves out calls, by which reads are ordered.
        if pen is None or recorder.looking.budget or recorder.in_file or self.locks:
            return
        if threading.get_ident() != self._thread:
            return
        action = _action_of(mode)
        known = self._known[action]
        if len(known) == MOST:
            return
        path = path_of(file)
        if not path or (path, place.opt) in known or not self._is_of_the_program(path):
            return
        known.add((path, place.opt))
        pen.snapshot(place.wrapper, action, place.opt, shown_path(path), 0)

    def note_lock(self, file: Any) -> None:
        """A file that was opened to be locked is changed by one rank at a time."""
        descriptor = file if isinstance(file, int) else file.fileno()
        self.note(os.readlink(f"/proc/self/fd/{descriptor}"), "a")
        self.locks = True

    def _is_of_the_program(self, path: str) -> bool:
        return not (path.startswith((*_SYSTEM, os.path.abspath(self._recorder.folder) + os.sep)) or path.endswith(_CODE)
                    or is_installed(path))


def _action_of(mode: str) -> str:
    """Of a file that only one rank can make ("x"), nothing is lost."""
    if "w" in mode:
        return "write"
    return "extend" if any(mark in mode for mark in "ax+") else "open"


def install(recorder: Recorder) -> None:
    opened = Opened(recorder)

    def make_open(real: Callable[..., Any]) -> Callable[..., Any]:
        def open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:  # noqa: A001
            try:
                if "opener" not in kwargs:  # Else the name may be something else's, as for temporary files.
                    opened.note(file, mode)
            except Exception as error:
                recorder.trouble(SEAM, error)
            return real(file, mode, *args, **kwargs)
        return open

    def make_lock(real: Callable[..., Any]) -> Callable[..., Any]:
        def lock(file: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                opened.note_lock(file)
            except Exception as error:
                recorder.trouble(SEAM, error)
            return real(file, *args, **kwargs)
        return lock

    for name in ("flock", "lockf"):
        recorder.patches.wrap(fcntl, name, make_lock)
    recorder.patches.wrap(builtins, "open", make_open)
    recorder.patches.replace(io, "open", builtins.open)
