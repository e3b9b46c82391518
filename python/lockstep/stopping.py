"""A note in the folder of a trace: who records the job is ending it, and which law that is for."""
from __future__ import annotations

import os
from pathlib import Path

NAME = "stopped-for"


def write(folder: str | Path, law: str) -> None:
    Path(folder, NAME).write_text(law, encoding="utf-8")


def read(folder: str | Path) -> str:
    """The law, or "" where the job runs on."""
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def detail(law: str) -> str:
    """What the `end` of a rank says."""
    return f"the job was ended: law {law} was broken"
