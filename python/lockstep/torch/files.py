"""The seam to files: what torch.save wrote and torch.load read, by path and digest.

What is written into memory is not seen: `Annotations.snapshot` is the word for it. Of a program's own files opened_files.py sees
that they are opened.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "files"


def path_of(file: Any) -> str:
    """Of a file that is given by its name; else empty."""
    return os.path.abspath(os.fspath(file)) if isinstance(file, (str, os.PathLike)) else ""


def shown_path(path: str) -> str:
    """One path on two nodes may be two files."""
    node = os.environ.get("GROUP_RANK", "")
    return path if node in ("", "0") else f"node {node}:{path}"


def install(recorder: Recorder) -> None:
    def digest_of(file: Any) -> int:
        path, pen = path_of(file), recorder.pen
        # A budget leaves no time to read a checkpoint once more.
        if pen is None or recorder.looking.budget or not os.path.isfile(path):
            return 0
        return pen.digest_of_file(path)

    def write(action: str, file: Any, digest: int) -> None:
        path, pen = path_of(file), recorder.pen
        if pen is None or not os.path.isfile(path):
            return
        place = recorder.current
        pen.snapshot(place.wrapper, action, place.opt, shown_path(path), digest)

    def make_save(real: Callable[..., Any]) -> Callable[..., Any]:
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.in_file += 1
            try:
                result = real(obj, f, *args, **kwargs)
            finally:
                recorder.in_file -= 1
            recorder.quietly(SEAM, lambda: write("part", f, digest_of(f)))
            return result
        return save

    def make_load(real: Callable[..., Any]) -> Callable[..., Any]:
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            # Before it is loaded: what another rank writes meanwhile must not be taken for what this one read.
            digest = recorder.quietly(SEAM, lambda: digest_of(f))
            recorder.in_file += 1
            try:
                return real(f, *args, **kwargs)
            finally:  # Part of a file is not loaded, but it was read.
                recorder.in_file -= 1
                recorder.quietly(SEAM, lambda: write("read", f, digest or 0))
        return load

    for name, make in (("save", make_save), ("load", make_load)):
        recorder.patches.wrap(torch.serialization, name, make)
        recorder.patches.replace(torch, name, getattr(torch.serialization, name))
