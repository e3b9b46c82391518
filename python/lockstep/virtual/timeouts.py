"""PyTorch's timeouts: timedelta or seconds, and several ways to say that there is none."""
from __future__ import annotations

from datetime import timedelta

FOREVER_S = 1e6  # Longer than any timeout that is meant.


def plain_seconds(timeout: timedelta | float | None, missing: float) -> float:
    if timeout is None:
        return missing
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def seconds_of(timeout: timedelta | float | None) -> float | None:
    """None where c10d means that there is no timeout of its own."""
    seconds = plain_seconds(timeout, 0.0)
    return seconds if 0 < seconds < FOREVER_S else None
