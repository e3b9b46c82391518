"""What the daily tests leave out, and a soak (`./dev soak`) runs."""
from __future__ import annotations

import os
from collections.abc import Iterable

SOAK = bool(os.environ.get("LOCKSTEP_SOAK"))


def with_ranks(scripts: Iterable[str], numbers: tuple[int, ...] = (2, 3), shift: int = 0) -> list[tuple[str, int]]:
    """Each script on one of these numbers of ranks, the next one on the next; in a soak, on all of them. Suites that run the same
    scripts take different shifts."""
    return [(script, ranks) for i, script in enumerate(scripts) for k, ranks in enumerate(numbers)
            if SOAK or (i + shift) % len(numbers) == k]
