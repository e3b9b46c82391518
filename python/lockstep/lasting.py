"""How long something has stayed as it is."""
from __future__ import annotations

from time import monotonic

MOST_PER_LOOK_S = 2.0


class Lasting:
    """Counts the time for which this process watched.

    One that was stopped and continued (Ctrl-Z, fg), or whose virtual machine was, has seen nothing meanwhile, and
    mostly what it watches stood still as well: such a pause counts as MOST_PER_LOOK_S. Nor does it
    matter that a clock is set, as it would to the times of files.
    """

    def __init__(self) -> None:
        self._state: object = None
        self._lasts = 0.0
        self._looked = monotonic()

    def look(self, state: object) -> float:
        """Looks at the state. Returns: for how many seconds it has been the same."""
        now = monotonic()
        since, self._looked = now - self._looked, now
        self._lasts = self._lasts + min(since, MOST_PER_LOOK_S) if state == self._state else 0.0
        self._state = state
        return self._lasts
