"""Many schedules of one job: the first that fails is made smaller and said, with the option that repeats it."""
from __future__ import annotations

import dataclasses
import re
import sys
from typing import TYPE_CHECKING

from lockstep.virtual import launch
from lockstep.virtual.shrinking import shrink

if TYPE_CHECKING:
    from lockstep.virtual.launch import Outcome
    from lockstep.virtual.options import Options

MOST_TRIES = 40  # A job may take long.
Kind = tuple[str, ...]


def kind_of(outcome: Outcome) -> Kind:
    """What two failures have in common that count as the same: the outcome, its text but for numbers, and the laws."""
    found, report = outcome.found, outcome.report
    text = str(found["error"]).partition("\n")[0] or str(found["wait_for"]).partition("\n")[0]
    laws = sorted({finding.law for finding in report.findings}) if report is not None else []
    return str(found["outcome"]), re.sub(r"\d+", "N", text), *laws


def explore(given: Options) -> int:
    """Serial schedules of consecutive seeds. Says the first that fails, and how to run it again.

    Returns: the exit code.
    """
    kinds: dict[str, int] = {}
    first: tuple[int, Outcome] | None = None
    for seed in range(given.seed, given.seed + given.explore):
        outcome = launch.run(given, seed, "", quiet=True)
        if outcome.found["outcome"] == "interrupted":
            return launch.EXIT_INTERRUPTED
        kind = "ok" if outcome.ok else outcome.found["outcome"]
        kind = "findings" if kind == "ok" and not outcome.ok else kind
        kinds[kind] = kinds.get(kind, 0) + 1
        if first is None and not outcome.ok:
            first = seed, outcome
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"lockstep: {given.explore} schedules: {counts}")
    if first is None:
        return launch.EXIT_OK
    print(f"lockstep: the first that failed: --serial --seed {first[0]}")
    _say_smallest(given, *first)
    return launch.EXIT_FINDINGS


def _say_smallest(given: Options, seed: int, outcome: Outcome) -> None:
    wanted = kind_of(outcome)

    def again(schedule: str) -> Outcome | None:
        try:
            return launch.run(dataclasses.replace(given, strategy=schedule), seed, "", quiet=True)
        except ValueError:
            return None  # A deviation whose place never comes.

    def fails(schedule: str) -> bool:
        found = again(schedule)
        return found is not None and kind_of(found) == wanted

    small = shrink(outcome.found["token"], fails, MOST_TRIES)
    last = again(small.schedule)
    if last is not None and kind_of(last) == wanted:
        print(f"lockstep: made smaller from {small.n_before} deviations to {small.n_after} in {small.tries} tries: "
              f"--serial --seed {seed} --strategy {small.schedule}")
        outcome = last
    else:
        print("lockstep: not every run of this schedule fails: something that no schedule decides takes part",
              file=sys.stderr)
    launch.say(outcome, given, again=False)
