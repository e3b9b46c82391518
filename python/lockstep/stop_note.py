"""A note in the folder of a trace: who records the job is ending it, and what for."""
from __future__ import annotations

import os
from pathlib import Path

NAME = "stopped-for"
STANDSTILL = "standstill"  # In place of a law: no rank has recorded anything for too long.


def write(folder: str | Path, what: str) -> None:
    """`what`: the law that was broken, or STANDSTILL."""
    Path(folder, NAME).write_text(what, encoding="utf-8")


def law(folder: str | Path) -> str:
    """The law that was broken, or "" where the job was not ended for one."""
    what = _read(folder)
    return "" if what == STANDSTILL else what


def stood_still(folder: str | Path) -> bool:
    """Whether the job was ended since no rank recorded anything."""
    return _read(folder) == STANDSTILL


def _read(folder: str | Path) -> str:
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def detail(law: str) -> str:
    """What the `end` of a rank says."""
    return f"the job was ended: law {law} was broken"
