"""Completing the traces of ranks that could not: a process that is killed or aborts writes no end."""
from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep import stop_note

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class End:
    """How a rank ended that did not say so itself."""

    outcome: str = "killed"  # As an `end` event has it (docs/trace_format.md).
    detail: str = "the process was gone before it could say how it ended"


def reap(folder: Path, ends: Mapping[int, End] | None = None) -> int:
    """Appends an `end` to each file of a rank that is gone and has none.

    Requires: no rank of the job is running any more.
    Args:
        ends: how ranks ended, where it is known.
    Returns: the number of files.
    """
    files = sorted(folder.glob("*.jsonl"))
    for path in files:
        _complete(path, ends or {})
    return len(files)


def _complete(path: Path, ends: Mapping[int, End]) -> None:
    whole = _drop_cut_line(path)
    last = _last_line(path)
    if not whole or last is None or last.get("kind") == "end":
        return
    known = ends.get(last["rank"], End())
    at = last.get("at", [last.get("attempt", 0), -1, -1, -1, 0, 0])
    end = {"rank": last["rank"], "i": last.get("i", -1) + 1, "t": last.get("t", 0),
           "at": [at[0], -1, -1, -1, at[4], at[5]], "kind": "end", "outcome": known.outcome,
           "detail": known.detail}
    law = stop_note.law(path.parent)
    if law:
        end.update(detail=stop_note.detail(law), reason="law-broken")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(end, separators=(",", ":")) + "\n")


def _drop_cut_line(path: Path) -> bool:
    """Removes what follows the last newline. Returns: whether a whole line is left."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end != len(data):
        with path.open("r+b") as file:
            file.truncate(end)
    return end > 0


def _last_line(path: Path) -> dict[str, Any] | None:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        reach = TAIL_BYTES
        while True:
            file.seek(max(0, size - reach))
            lines = file.read().splitlines()
            if reach >= size or len(lines) > 1:
                break
            reach *= 4
    try:
        line = json.loads(lines[-1])
    except (IndexError, ValueError):
        return None
    return line if isinstance(line, dict) and "rank" in line else None
