"""Which windows are looked at, where recording has a budget.

A window lasts from the end of one optimizer step to the end of the next. All of its gradients and
states are looked at, or none of them: laws then always see whole accumulations. Windows that are
not looked at leave their forwards, losses, collectives, samples and steps in the trace, and the digest
of one parameter, in turn.

Ranks choose alike without a word between them: only windows that cross a multiple of a power of two
are looked at, and a rank that can afford fewer takes some of those of the others.
"""
from __future__ import annotations

import math
import time
from collections import deque
from statistics import median

ALWAYS = 2  # The first windows: most mistakes show at once.
FIRST = 16
MOST = 4096
SHARE = 0.3  # Of the budget: the rest is for what every window costs.
ENOUGH = 8  # Windows that were not looked at, to know how long they take.


class Looking:
    """Chooses the windows of one rank.

    Args:
        budget: the share of the job's time that recording may take; 0 = look at everything.
    """

    def __init__(self, budget: float = 0.0) -> None:
        self.budget = budget
        self.every = FIRST if budget else 1
        self._plain: deque[float] = deque(maxlen=32)
        self._looked: deque[float] = deque(maxlen=4)
        self._since: float | None = None

    def wants(self, before: int, now: int) -> bool:
        """Whether a window is looked at that begins at synchronising forward `now`, where the window
        before it began at `before`."""
        return self.every == 1 or now < ALWAYS or now // self.every > before // self.every

    def over(self, looked: bool) -> None:
        """A window of the first wrapper is over."""
        if not self.budget:
            return
        now = time.perf_counter()
        if self._since is not None:
            (self._looked if looked else self._plain).append(now - self._since)
            if looked and len(self._plain) >= ENOUGH:
                self._adapt()
        self._since = now

    def _adapt(self) -> None:
        plain = median(self._plain)
        extra = max(0.0, median(self._looked) - plain)
        needed = extra / (self.budget * SHARE * plain)
        self.every = min(MOST, max(FIRST, 1 << math.ceil(math.log2(max(1.0, needed)))))
