"""What is recorded of a window, where recording has a budget.

A window lasts from the end of one optimizer step to the end of the next. All of its gradients and
states are looked at, or none of them: laws then always see whole accumulations. Windows that are
not looked at leave their forwards, losses, collectives, samples and steps in the trace, and the digest
of one parameter, in turn. Where even that is more than the budget allows, some windows leave only their
samples and the number of their calls (left_out.py).

Ranks choose alike without a word between them: only windows that cross a multiple of a power of two
are looked at, or leave events, and a rank that can afford fewer takes some of those of the others.
"""
from __future__ import annotations

import math
import time
from collections import deque
from enum import IntEnum
from statistics import median

ALWAYS = 2  # The first windows: most mistakes show at once.
FIRST = 16
MOST = 4096
MOST_LEFT_OUT = 64  # One window of this many leaves events, or more do.
SHARE = 0.2  # Of the budget, for windows that are looked at ...
SHARE_OF_EVENTS = 0.2  # ... and for the events of others: the rest is for what every window costs.
ENOUGH = 8  # Windows of a kind, to know how long they take.
LEARNING = range(FIRST, 4 * FIRST)  # Of each thousand windows: every other one is left out, to compare.
AGAIN = 1024


class Look(IntEnum):
    """What a window leaves in the trace."""

    COUNT = 0  # How many calls it made, and its samples.
    EVENTS = 1
    WHOLE = 2  # Gradients and states, too.


class Looking:
    """Chooses what the windows of one rank leave.

    Args:
        budget: the share of the job's time that recording may take; 0 = look at everything.
    """

    def __init__(self, budget: float = 0.0) -> None:
        self.budget = budget
        self.every = FIRST if budget else 1
        self.often = 1  # One of this many windows leaves events.
        self.quiet_until = 0  # Windows that begin before this one leave no more than the current one.
        self._window = 0  # The synchronising forward that the current window begins with.
        self._since: tuple[float, float] | None = None
        self._lasted: deque[float] = deque(maxlen=32)  # Windows that are not looked at.
        # By what those that are took more than the one before: of the clock, and of the processor.
        self._longer: deque[float] = deque(maxlen=8)
        self._dearer: deque[float] = deque(maxlen=8)
        self._last_spent = 0.0
        self._spent: dict[Look, list[float]] = {look: [] for look in Look}  # Processor's time, while learning.

    def wants(self, before: int, now: int) -> Look:
        """What a window leaves that begins at synchronising forward `now`, where the window before it
        began at `before`."""
        self._window = now
        look = self._wanted(before, now)
        self.quiet_until = self._next_after(now) if look is Look.COUNT and not self._learns() else 0
        if self.budget and self._since is None and (look is not Look.COUNT or self._learns()):
            self._since = _clocks()
        return look

    def _wanted(self, before: int, now: int) -> Look:
        if self.every == 1 or now < ALWAYS or now // self.every > before // self.every:
            return Look.WHOLE
        if now % AGAIN in LEARNING:
            return Look.COUNT if now % 2 else Look.EVENTS
        if now < FIRST or self.often == 1 or now // self.often > before // self.often:
            return Look.EVENTS
        return Look.COUNT

    def _next_after(self, now: int) -> int:
        """The first window after this one, of those that only count, that may be another kind."""
        period = now - now % AGAIN
        learning = period + LEARNING.start if now < period + LEARNING.start else period + AGAIN + LEARNING.start
        ends = [(now // every + 1) * every for every in (self.every, self.often)]
        return min(ends + [learning] if LEARNING else ends)

    def over(self, look: Look) -> None:
        """A window of the first wrapper is over."""
        if not self.budget:
            return
        since, self._since = self._since, None
        if since is None or look is Look.COUNT and not self._learns():
            return  # One of many that are left out: nothing follows from how long it took.
        now = self._since = _clocks()
        self.note(look, now[0] - since[0], now[1] - since[1])

    def _learns(self) -> bool:
        """Whether the current window is one of those that are compared."""
        return self._window % AGAIN in LEARNING

    def note(self, look: Look, lasted: float, spent: float) -> None:
        """How long a window lasted and what it took of its thread's processor: seconds."""
        if look is Look.WHOLE:
            if self._lasted:
                self._longer.append(lasted - self._lasted[-1])
                self._dearer.append(spent - self._last_spent)
            if len(self._lasted) >= ENOUGH:
                self._adapt_whole()
            return
        self._lasted.append(lasted)
        self._last_spent = spent
        if self._learns():
            self._spent[look].append(spent)
        elif self._spent[Look.EVENTS]:
            self._adapt_events()
            self._spent = {look: [] for look in Look}

    def _adapt_whole(self) -> None:
        """Waiting counts, too: tensors may come from a device. Neighbours are compared: others on the
        machine slow down both."""
        more = max(median(self._longer), median(self._dearer))
        needed = more / (self.budget * SHARE * median(self._lasted))
        self.every = min(MOST, max(FIRST, self.often, _power_over(needed)))

    def _adapt_events(self) -> None:
        """What events cost is processor's time. Whatever else runs only adds to it: the quicker windows
        say what is theirs."""
        quick = [sorted(self._spent[look])[len(self._spent[look]) // 4] for look in (Look.EVENTS, Look.COUNT)
                 if len(self._spent[look]) >= ENOUGH]
        if len(quick) == 2:
            needed = (quick[0] - quick[1]) / (self.budget * SHARE_OF_EVENTS * median(self._lasted))
            self.often = min(MOST_LEFT_OUT, _power_over(needed))


def _clocks() -> tuple[float, float]:
    """Seconds: the clock's, and of this thread's processor."""
    return time.perf_counter(), time.thread_time()


def _power_over(least: float) -> int:
    """The smallest power of two that is not less."""
    return int(1 << math.ceil(math.log2(max(1.0, least))))
