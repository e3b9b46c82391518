"""Where in the user's program a call was made."""
from __future__ import annotations

import os
import sys
import sysconfig
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))
_names: dict[str, str] = {}  # By file; empty = not the user's.


def _name_of(file: str) -> str:
    known = _names.get(file)
    if known is None:
        known = _names[file] = _shown(file)
    return known


def _shown(file: str) -> str:
    place = f"{os.sep}torch{os.sep}"
    if file.startswith((_OURS, "<")) or place in file or f"{os.sep}lockstep{os.sep}" in file:
        return ""
    if file == os.path.join(os.path.dirname(os.__file__), "contextlib.py"):
        return ""
    shown = os.path.relpath(file)
    return file if shown.startswith("..") else shown


def is_installed(file: str) -> bool:
    """Whether a file is Python's, or an installed package's."""
    return file.startswith(_INSTALLED) or "-packages" in file or os.path.abspath(file).startswith(_INSTALLED)


def is_ours(file: str) -> bool:
    """Whether a file is Lockstep's own."""
    return file.startswith(_OURS)


def shown(file: str) -> str:
    """The name of a file of the user's; "" where it is not the user's."""
    return _name_of(file)


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost of the user's functions at or above `frame`."""
    while frame is not None and not _name_of(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def site(frame: FrameType | None) -> tuple[str, int]:
    """The line at which that is; ("", 0) where there is none."""
    frame = users_frame(frame)
    return ("", 0) if frame is None else (_name_of(frame.f_code.co_filename), frame.f_lineno)


def site_here() -> tuple[str, int]:
    return site(sys._getframe(1))


def local_of(functions: frozenset[str], file_ending: str, frame: FrameType | None) -> dict[str, Any]:
    """The local variables of the nearest of `functions` of a file; empty where there is none.

    PyTorch's own hooks do not tell everything its Python functions were given.
    """
    for _ in range(12):
        if frame is None:
            break
        code = frame.f_code
        if code.co_name in functions and code.co_filename.endswith(file_ending):
            return frame.f_locals
        frame = frame.f_back
    return {}
