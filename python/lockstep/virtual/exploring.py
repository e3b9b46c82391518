"""Many schedules of one job: the first that fails is made smaller and said, with the options that repeat it."""
from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.terminal import say, warn
from lockstep.virtual import launch
from lockstep.virtual.minimize import Failure, make_smaller
from lockstep.virtual.options import command_of
from lockstep.virtual.shrinking import shrink

if TYPE_CHECKING:
    from lockstep.virtual.launch import Outcome
    from lockstep.virtual.options import Options

MOST_TRIES = 40  # A job may take long.
Kind = tuple[str, ...]


def kind_of(outcome: Outcome) -> Kind:
    """What two failures have in common that count as the same: the outcome, its text but for numbers, and the laws."""
    found, report = outcome.found, outcome.report
    waits = {_numberless(end["text"]) for end in found["ends"] if end["outcome"] == "stuck"}
    laws = {finding.law for finding in report.findings} if report is not None else set()
    return str(found["outcome"]), _numberless(found["error"].partition("\n")[0]), *sorted(waits), *sorted(laws)


def _numberless(text: str) -> str:
    """Fewer ranks and steps have other numbers."""
    return re.sub(r"ranks? [\d, ]*\d|\d+", "N", text)


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
    say(f"lockstep: {given.explore} schedules: {counts}")
    if first is None:
        return launch.EXIT_OK
    say(f"lockstep: the first that failed: --serial --seed {first[0]}")
    say_smallest(given, *first)
    return launch.EXIT_FINDINGS


def say_smallest(given: Options, seed: int, outcome: Outcome) -> None:
    """Makes a failed job smaller (faults, ranks and steps), then its schedule, and says what is left of it."""
    wanted = kind_of(outcome)

    def failure(smaller: Options, with_seed: int) -> Failure | None:
        try:
            found = launch.run(smaller, with_seed, "", quiet=True)
        except ValueError:
            return None  # A fault of a rank that there is not, or a deviation whose place never comes.
        if found.found["outcome"] == "interrupted":
            raise KeyboardInterrupt
        return Failure(smaller, with_seed, found) if kind_of(found) == wanted else None

    small = make_smaller(Failure(given, seed, outcome), failure, tries=MOST_TRIES)
    last, says, tries = small.failure, small.changes, small.tries
    if given.serial:
        before = last
        schedule = shrink(last.outcome.found["token"],
                          lambda text: failure(replace(before.given, strategy=text), before.seed) is not None, MOST_TRIES)
        again = failure(replace(before.given, strategy=schedule.schedule), before.seed)
        if again is None:
            warn("lockstep: not every run of this schedule fails: something that no schedule decides takes part")
            launch.say(outcome, given, again=False)
            return
        last = again
        says = [*says, f"{schedule.n_after} of {schedule.n_before} deviations"]
        tries += schedule.tries
    say(f"lockstep: made smaller in {tries} tries: {', '.join(says) or 'nothing can be left out'}")
    say(f"lockstep: again: {command_of(replace(last.given, seed=last.seed))}")
    launch.say(last.outcome, last.given, again=False)
