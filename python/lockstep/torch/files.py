"""The seam to files: what torch.save wrote and torch.load read, by path and digest.

Files of a program's own, and what is written into memory, are not seen: `ProgramRecord.snapshot` is
the word for them.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "files"


def _path_of(file: Any) -> str:
    return os.path.abspath(os.fspath(file)) if isinstance(file, (str, os.PathLike)) else ""


def _shown(path: str) -> str:
    """One path on two nodes may be two files."""
    node = os.environ.get("GROUP_RANK", "")
    return path if node in ("", "0") else f"node {node}:{path}"


def install(recorder: Recorder) -> None:
    def write(action: str, file: Any) -> None:
        path, pen = _path_of(file), recorder.pen
        if pen is None or not path or not os.path.isfile(path):
            return
        place = recorder.current
        # A budget leaves no time to read a checkpoint once more.
        pen.snapshot(place.wrapper, action, place.opt, _shown(path),
                     "" if recorder.looking.budget else path, 0)

    def make_save(real: Callable[..., Any]) -> Callable[..., Any]:
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(obj, f, *args, **kwargs)
            recorder.quietly(SEAM, lambda: write("part", f))
            return result
        return save

    def make_load(real: Callable[..., Any]) -> Callable[..., Any]:
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(f, *args, **kwargs)
            recorder.quietly(SEAM, lambda: write("read", f))
            return result
        return load

    for name, make in (("save", make_save), ("load", make_load)):
        recorder.patches.wrap(torch.serialization, name, make)
        recorder.patches.replace(torch, name, getattr(torch.serialization, name))
