"""Virtual time: sleeping costs none, and clocks show what was slept."""
from __future__ import annotations

import threading
import time
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.virtual.connection import Connection

TICK_NS = 1_000  # A look at a virtual clock takes so long: loops that wait for a clock end.
_BEGINS_NS = {"time": 1_600_000_000 * 10**9, "monotonic": 10**12, "perf_counter": 10**12}


class ClockMode(Enum):
    REAL = "real"  # What this machine needs, plus what was slept.
    VIRTUAL = "virtual"  # What was slept, and a tick for each look: the same in every run.


def install(connection: Connection, mode: ClockMode) -> None:
    """Replaces time.sleep and the clocks of module time in the process of a rank."""
    real_sleep = time.sleep
    main = threading.main_thread()

    def sleep(seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if connection.is_mine and threading.current_thread() is main:
            connection.sleep(int(seconds * 1e9))
        else:
            real_sleep(seconds)

    setattr(time, "sleep", sleep)
    looks = _Looks()
    for name in _BEGINS_NS:
        _replace(name, connection, mode, looks)


class _Looks:
    """How often clocks have been looked at."""

    def __init__(self) -> None:
        self.ns = 0

    def next(self) -> int:
        self.ns += TICK_NS
        return self.ns


def _replace(name: str, connection: Connection, mode: ClockMode, looks: _Looks) -> None:
    real: Callable[[], int] = getattr(time, name + "_ns")
    def now_ns() -> int:
        if mode is ClockMode.VIRTUAL:
            return _BEGINS_NS[name] + connection.now_ns + looks.next()
        return real() + connection.now_ns

    def now() -> Any:
        return now_ns() / 1e9

    setattr(time, name, now)
    setattr(time, name + "_ns", now_ns)
