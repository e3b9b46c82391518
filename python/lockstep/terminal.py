"""What the commands say: texts that programs and traces hold, on a terminal, and an output that cannot be written."""
from __future__ import annotations

import errno
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from lockstep._core import die_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

EXIT_LOST = 3  # As that of the native command.


class OutputLost(Exception):
    """Standard output cannot be written. What was to be said after it is not said."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to the standard output: {os.strerror(error.errno or errno.EIO)}")
        self.number = error.errno or errno.EIO
        self.is_closed_pipe = error.errno == errno.EPIPE


_lost: list[OutputLost] = []  # The first, of this process.


def plain(text: str) -> str:
    """`text` on one line, with escapes for what a terminal would obey."""
    return "".join(letter if letter.isprintable() else _escape(ord(letter)) for letter in text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _plain_lines(text: str) -> str:
    return "".join(letter if letter in "\n\t" else plain(letter) for letter in text)


def say(text: str) -> None:
    """A line or more of the command's own on standard output. Raises OutputLost."""
    show(_plain_lines(text))


def warn(text: str) -> None:
    """The same on standard error, where it can be written."""
    try:
        _put(sys.stderr, _plain_lines(text))
    except (OSError, ValueError):
        pass


def show(text: str, errors: bool = False) -> None:
    """What a program has printed, as it is. Raises OutputLost, for `errors` only where no process reads them any more."""
    try:
        if _lost:
            raise _lost[0]
        _put(sys.stderr if errors else sys.stdout, text)
    except OSError as error:
        if not errors or error.errno == errno.EPIPE:
            _lost.append(OutputLost(error))
            raise _lost[0] from None


def _put(stream: TextIO | None, text: str) -> None:
    if stream is None:  # It was closed when Python began.
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def lost() -> OutputLost | None:
    """Why output of this process was lost, if any was."""
    return _lost[0] if _lost else None


def lose(number: int) -> NoReturn:
    """A process of this command's could not write what it had to say. Raises OutputLost."""
    _lost.append(OutputLost(OSError(number, os.strerror(number))))
    raise _lost[0]


def require_output() -> None:
    """Raises OutputLost where standard output is closed: a pipe or a file of ours would be taken for it."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Becomes the lowest number that is free: this one.
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if sys.stdout is None:
        show("")


def ended(command: Callable[[], int]) -> int:
    """Runs a command. Returns: its exit code, or that of an output that cannot be written.

    Where no process reads the output any more it ends the process by SIGPIPE, as other commands are.
    """
    try:
        try:
            code = command()
        finally:
            _flush()
    except OutputLost:
        code = EXIT_LOST
    if not _lost:
        return code
    if _lost[0].is_closed_pipe:
        die_by(signal.SIGPIPE)
    warn(f"lockstep: {_lost[0]}")
    _discard()
    return EXIT_LOST


def _flush() -> None:
    """What argparse and others have printed may lie in Python's buffer."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        _lost.append(OutputLost(error))
        raise _lost[-1] from None


def _discard() -> None:
    """Python would try to write the rest once more as it ends, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
