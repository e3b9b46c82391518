"""The folder that a job records into. Two jobs at once would mix their ranks there, and neither could be judged."""
from __future__ import annotations

import errno
import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.command_line import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def claim(folder: str, option: str) -> Iterator[None]:
    """Makes the folder. Within, or until the process ends in any way, no other one of this machine gets it: ranks of
    several nodes may share a folder on purpose.

    Raises:
        Usage: there cannot be such a folder, it holds a trace, or another job has it.
    """
    path = Path(folder).absolute()
    if not folder:
        raise Usage(f"{option}: names no folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        place = path.stat()
    except OSError as error:
        why = "is not a folder" if isinstance(error, FileExistsError) else error.strerror
        raise Usage(f"{option} {folder}: {why}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise Usage(f"{option} {folder}: {os.strerror(errno.EACCES)}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claimed:
        try:
            # A name without a file: it is gone with the process, however that ends.
            claimed.bind(f"\0lockstep records into {place.st_dev}:{place.st_ino}")
        except OSError:
            raise Usage(f"{folder}: another job is recorded into it; choose another folder with {option}") from None
        if any(path.glob("*.jsonl")):
            raise Usage(f"{folder}: holds a trace already; choose another folder with {option}")
        yield
