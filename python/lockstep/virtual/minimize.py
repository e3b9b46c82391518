"""Making a job that fails smaller: fewer planned faults, fewer ranks, fewer steps. What is left fails in the same way.

    faults   each is left out, unless the failure needs it
    ranks    1, 2, 3, ...: the first number that fails, on one node; serial jobs are tried with several seeds
    steps    1, 2, 4, ... until it fails, then halves of what lies between

Whether a job fails need not grow with its ranks (a number that divides nothing may be what it takes), hence one by one; jobs of
few ranks are the cheap ones. With its steps it does: what fails after three has failed when there is a fourth.
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.virtual.launch import Outcome
    from lockstep.virtual.options import Options

MOST_SEEDS = 6  # Of a serial job with fewer ranks, whose schedules are other ones.
MOST_STEPS = 1 << 10


@dataclass(frozen=True)
class Failure:
    """A job that failed, and how it was started."""

    given: Options
    seed: int
    outcome: Outcome


@dataclass
class Smaller:
    failure: Failure
    changes: list[str] = field(default_factory=list)  # Such as "2 of 4 ranks".
    tries: int = 0


def make_smaller(failure: Failure, fails: Callable[[Options, int], Failure | None], tries: int) -> Smaller:
    """Args:
        fails: runs a job with a seed; None where it does not fail in the same way.
        tries: runs of it at most.
    Returns: a failure of `fails`, or the one given. Deterministic: given a deterministic `fails`.
    """
    return _Search(failure, fails, tries).run()


class _Search:
    def __init__(self, failure: Failure, fails: Callable[[Options, int], Failure | None], most_tries: int) -> None:
        self._best = failure
        self._fails = fails
        self._most_tries = most_tries
        self._tries = 0

    def run(self) -> Smaller:
        before = self._best.given
        self._leave_out_faults()
        if not before.alone:
            self._leave_out_ranks()
        self._leave_out_steps()
        after, changes = self._best.given, []
        if len(after.faults) < len(before.faults):
            changes.append(f"{len(after.faults)} of {len(before.faults)} faults")
        if after.ranks < before.ranks:
            changes.append(f"{after.ranks} of {before.ranks} ranks")
        if after.steps != before.steps:
            changes.append(f"at most {after.steps} step{'s' * (after.steps > 1)}")
        return Smaller(self._best, changes, self._tries)

    def _try(self, given: Options, seed: int) -> bool:
        if self._tries >= self._most_tries:
            return False
        self._tries += 1
        failure = self._fails(given, seed)
        if failure is None:
            return False
        self._best = failure
        return True

    def _leave_out_faults(self) -> None:
        for fault in reversed(self._best.given.faults):
            kept = list(self._best.given.faults)
            kept.remove(fault)
            self._try(replace(self._best.given, faults=tuple(kept)), self._best.seed)

    def _leave_out_ranks(self) -> None:
        given, seed = self._best.given, self._best.seed
        # A schedule that was given by its token is one of as many ranks.
        strategy = "random" if given.strategy.startswith("@") else given.strategy
        most = self._tries + (self._most_tries - self._tries) // 2  # The other half is for steps.
        for ranks in range(1, given.ranks):
            smaller = replace(given, ranks=ranks, per_node=ranks, nodes=1, strategy=strategy)
            for number in range(MOST_SEEDS if given.serial and ranks > 1 else 1):
                if self._tries >= most or self._try(smaller, seed + number):
                    return

    def _leave_out_steps(self) -> None:
        given, seed = self._best.given, self._best.seed
        most = given.steps or MOST_STEPS
        passes, fails = 0, 1
        while fails < most and not self._try(replace(given, steps=fails), seed):
            if self._tries >= self._most_tries:
                return
            passes, fails = fails, 2 * fails
        while fails < most and fails - passes > 1:
            middle = (passes + fails) // 2
            if self._try(replace(given, steps=middle), seed):
                fails = middle
            else:
                passes = middle
