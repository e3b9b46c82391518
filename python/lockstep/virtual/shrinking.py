"""Making the schedule of a failure smaller: deviations that it does not need are left out."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_TRIES = 60


@dataclass(frozen=True)
class Shrunk:
    schedule: str
    n_before: int  # Deviations from the default schedule (docs/schedules.md).
    n_after: int
    tries: int


def deviations_of(schedule: str) -> list[str]:
    """Of a schedule's token without a continuation: "@0-5=1,t3=2"."""
    return [each for each in schedule.removeprefix("@").split(",") if each]


def schedule_of(deviations: list[str]) -> str:
    return "@" + ",".join(deviations)


def shrink(schedule: str, fails: Callable[[str], bool], most_tries: int = MOST_TRIES) -> Shrunk:
    """Leaves out halves, quarters, ... of the deviations, the last ones first, as long as it fails.

    Args:
        fails: whether a schedule fails in the same way; False for one that does not fit.
    Returns: one that fails. Deterministic: given a deterministic `fails`.
    """
    if not schedule.startswith("@") or "/" in schedule:
        return Shrunk(schedule, 0, 0, 0)
    kept = deviations_of(schedule)
    n_before, tries = len(kept), 0
    length = len(kept)
    while kept and length >= 1 and tries < most_tries:
        end, removed = len(kept), False
        while end > 0 and tries < most_tries:
            begin = max(0, end - length)
            smaller = kept[:begin] + kept[end:]
            tries += 1
            if fails(schedule_of(smaller)):
                kept, removed = smaller, True
            end = begin
        if length == 1 and not removed:
            break
        length = max(1, min(length // 2, len(kept)))
    return Shrunk(schedule_of(kept), n_before, len(kept), tries)
