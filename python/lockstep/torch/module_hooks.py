"""What hooks on the program's modules have in common."""
from __future__ import annotations

from typing import Any


class ModuleHook:
    """A forward pre-hook of the recorder's. Programs copy and pickle whole modules, such as moving averages in a checkpoint: in a
    copy a call that gives the inputs back unchanged takes its place, also where there is no Lockstep."""

    def __deepcopy__(self, _memo: Any) -> Any:
        return {}.get

    def __reduce__(self) -> Any:
        return getattr, ({}, "get")
