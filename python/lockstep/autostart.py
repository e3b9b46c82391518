"""Starts the recorder in processes that turn out to be ranks, without an edit of their script.

With LOCKSTEP_RECORD=DIR in the environment every Python process arms itself at its start. Nothing
more happens until it imports torch.distributed; only a rank does, and the launcher that starts ranks,
which never joins a process group.
"""
from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FOLDER = "LOCKSTEP_RECORD"
BUDGET = "LOCKSTEP_BUDGET"  # A share of the time, such as 0.05; absent: everything is looked at.
WATCHED = "torch.distributed.distributed_c10d"


class _Loader(importlib.abc.Loader):
    """Loads the module as its own loader would, then arms the recorder."""

    def __init__(self, real: importlib.abc.Loader, folder: str) -> None:
        self._real = real
        self._folder = folder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        try:
            from lockstep.torch import start
            start(self._folder, float(os.environ.get(BUDGET) or 0.0))
        except Exception as error:  # A job never fails for its recorder.
            print(f"lockstep: nothing is recorded: {error}", file=sys.stderr)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        if name != WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._folder)  # type: ignore[arg-type]
        return spec


def arm() -> None:
    """Does nothing without LOCKSTEP_RECORD, or when armed already."""
    folder = os.environ.get(FOLDER)
    if folder and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(os.path.abspath(folder)))
