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
MOST_LEFT_OUT = 64  # Of so many windows one leaves events, or more.
SHARE = 0.3  # Of the budget, for windows that are looked at ...
SHARE_OF_EVENTS = 0.3  # ... and for the events of others: the rest is for what every window costs.
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
        self.often = 1  # One of so many windows leaves events.
        self._lasted: dict[Look, deque[float]] = {look: deque(maxlen=32) for look in Look}
        self._spent: dict[Look, deque[float]] = {look: deque(maxlen=32) for look in Look}
        self._since: tuple[float, float] | None = None

    def wants(self, before: int, now: int) -> Look:
        """What a window leaves that begins at synchronising forward `now`, where the window before it
        began at `before`."""
        if self.every == 1 or now < ALWAYS or now // self.every > before // self.every:
            return Look.WHOLE
        if now % AGAIN in LEARNING:
            return Look.COUNT if now % 2 else Look.EVENTS
        if now < FIRST or self.often == 1 or now // self.often > before // self.often:
            return Look.EVENTS
        return Look.COUNT

    def over(self, look: Look) -> None:
        """A window of the first wrapper is over."""
        if not self.budget:
            return
        now = (time.perf_counter(), time.thread_time())
        if self._since is not None:
            self._lasted[look].append(now[0] - self._since[0])
            self._spent[look].append(now[1] - self._since[1])
            if look is Look.WHOLE:
                self._adapt()
        self._since = now

    def _adapt(self) -> None:
        """Of whole windows waiting counts, too: tensors may come from a device. What events cost is the
        processor's time alone, which others on the machine disturb less."""
        known = [look for look in (Look.COUNT, Look.EVENTS) if len(self._lasted[look]) >= ENOUGH]
        if not known:
            return
        plain = median(self._lasted[known[0]])
        if len(known) == 2:
            extra = median(self._spent[Look.EVENTS]) - median(self._spent[Look.COUNT])
            self.often = min(MOST_LEFT_OUT, _power_over(extra / (self.budget * SHARE_OF_EVENTS * plain)))
        extra = median(self._lasted[Look.WHOLE]) - median(self._lasted[known[-1]])
        self.every = min(MOST, max(FIRST, self.often, _power_over(extra / (self.budget * SHARE * plain))))


def _power_over(least: float) -> int:
    """The smallest power of two that is not less."""
    return int(1 << math.ceil(math.log2(max(1.0, least))))
