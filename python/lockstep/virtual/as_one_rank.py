"""The law single-process-equal on a user's own script: N ranks compute what one rank computes on the same global batch.

The script is run once more as one rank. Its loaders hand out, batch by batch, the samples of all ranks together, and each
step begins with the parameters that the ranks had. The gradients that its optimizers use are then those of the
ranks: in every bit, or within what rounding can do.
"""
from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch

from lockstep.virtual import launch
from lockstep.virtual.step_values import Seen, Step, Watch, global_passes, seen_by, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.virtual.options import Options

LEAST_DIGITS = 2.0 ** -4  # Rounding that may be as large as that hides what is looked for.
CONFIDENCE = 8.0  # A sum exceeds this many sqrt(n) u with a probability of at most 2 exp(-32).


class Verdict(Enum):
    HOLDS = "holds"
    BROKEN = "is broken"
    NOT_CHECKABLE = "is not checkable"


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    sentence: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"lockstep: as one rank: single-process-equal {self.verdict.value}: {self.sentence}"]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def run(given: Options) -> tuple[launch.Outcome, Judgement]:
    """Runs the job, then its companion."""
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        outcome = launch.run(replace(given, watch=Watch(folder)), given.seed, given.trace)
        if outcome.found["outcome"] != "ok":
            return outcome, _not_checkable("the job itself did not end well")
        ranks = [seen_by(folder, rank) for rank in range(given.ranks)]
        complete = [seen for seen in ranks if seen is not None]
        if len(complete) < given.ranks:
            return outcome, _not_checkable(f"rank {ranks.index(None)} left nothing of what it saw")
        why = _why_not(complete)
        if why:
            return outcome, _not_checkable(why)
        alone = replace(given, ranks=1, per_node=1, nodes=1, record=False, trace="", serial=False, strategy="",
                        watch=Watch(folder, feeds=given.ranks))
        second = launch.run(alone, given.seed, "", quiet=True)
        one = seen_by(folder, given.ranks)
        if second.found["outcome"] != "ok" or one is None:
            return outcome, _not_checkable(f"as one rank the script fails: {second.found['error']}")
        return outcome, judge(complete, one)


def _not_checkable(why: str) -> Judgement:
    return Judgement(Verdict.NOT_CHECKABLE, why)


def _why_not(ranks: Sequence[Seen]) -> str:
    """What the ranks alone show."""
    for rank, seen in enumerate(ranks):
        if seen.why_not:
            return f"{seen.why_not} (rank {rank})"
    if not ranks[0].wrapped:
        return "no model is wrapped in DistributedDataParallel"
    if not ranks[0].steps:
        return "no optimizer made a step"
    for number, step in enumerate(ranks[0].steps):
        if not step.parameters:
            return f"no forward through DistributedDataParallel led to step {number}"
    if not any(step.batches for step in ranks[0].steps):
        return "no loader handed out a batch, and nothing else says which samples a rank takes"
    for rank, seen in enumerate(ranks):
        for number, (step, first) in enumerate(zip(seen.steps, ranks[0].steps)):
            if [key for key, _ in step.batches] != [key for key, _ in first.batches]:
                return (f"rank {rank} took {len(step.batches)} batches for step {number}, rank 0 {len(first.batches)} or of "
                        "other loaders")
    return ""


def judge(ranks: Sequence[Seen], one: Seen) -> Judgement:
    """Args:
        ranks: what they saw; _why_not() has nothing against them.
        one: what the companion run saw.
    """
    why = one.why_not or _other_rows(ranks, one) or _other_shape(ranks, one)
    if why:
        return _not_checkable(why)
    count = _Count()
    for number, (step, single) in enumerate(zip(ranks[0].steps, one.steps)):
        terms = sum(one.passes[key][place].n_elements for key, place in single.batches) + 2 * single.fan_ins
        relative = rounding_of(terms) * single.rounding
        if relative > LEAST_DIGITS:
            return _not_checkable(f"sums of {terms} terms may round by more than 1 in {1 / LEAST_DIGITS:.0f}")
        count.compare(step, single, relative)
        if count.broken:
            return Judgement(Verdict.BROKEN, f"step {number}: {count.broken_sentence(len(ranks))}", _notes(ranks[0], one))
    return Judgement(Verdict.HOLDS, count.sentence(len(one.steps), len(ranks)), _notes(ranks[0], one))


def rounding_of(terms: int) -> float:
    """How many unit roundoffs of the largest term a sum may be off by: at most one for each term, and in all likelihood
    CONFIDENCE times their root.

    Source: Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41 (2019), theorem 2.4.
    """
    return min(float(terms), CONFIDENCE * math.sqrt(terms))


def _other_rows(ranks: Sequence[Seen], one: Seen) -> str:
    wanted = global_passes(ranks)
    for step in one.steps:
        for key, number in step.batches:
            batch = one.passes[key][number]
            rows = [row for seen in ranks for each in seen.passes.get(key, [])[number:number + 1] for row in each.rows]
            if batch.ids != wanted.get(key, [[]] * (number + 1))[number] or batch.rows != rows:
                return (f"batch {number} of {key[0]}:{key[1]} has other values as one rank: its rows are augmented or padded "
                        "anew, or the ranks' data sets differ")
    return ""


def _other_shape(ranks: Sequence[Seen], one: Seen) -> str:
    first = ranks[0]
    for number, (step, single) in enumerate(zip(first.steps, one.steps)):
        if step.batches != single.batches:
            why = ": the script divides its micro-steps by the number of ranks"
            divides = len(single.batches) == len(ranks) * len(step.batches)
            return (f"step {number} takes {_named(step.batches)} on each rank and {_named(single.batches)} as one rank"
                    f"{why if divides else ''}")
        if step.gradients.keys() != single.gradients.keys():
            return (f"the optimizer of rank 0 holds {len(step.gradients)} parameters, that of one rank "
                    f"{len(single.gradients)}: its state is divided among the ranks")
    if len(one.steps) != len(first.steps):
        return f"as one rank the script makes {len(one.steps)} steps, not {len(first.steps)}"
    return ""


def _named(batches: Sequence[tuple[Any, int]]) -> str:
    if len(batches) != 1:
        return f"{len(batches)} batches"
    [(key, number)] = batches
    return f"batch {number} of {key[0]}:{key[1]}"


def _notes(first: Seen, one: Seen) -> tuple[str, ...]:
    for number, (step, single) in enumerate(zip(first.steps, one.steps)):
        if step.rates != single.rates:
            return (f"the learning rate depends on the number of ranks: step {number} has {step.rates[0]:g}, and "
                    f"{single.rates[0]:g} as one rank",)
    return ()


@dataclass
class _Count:
    exact: int = 0
    all: int = 0
    largest: float = 0.0  # Of the differences, as a part of the bound.
    broken: list[str] = field(default_factory=list)

    def compare(self, step: Step, single: Step, relative: float) -> None:
        scale = max((float(each.abs().max()) for each in single.gradients.values() if each is not None and each.numel()),
                    default=0.0)
        bound = relative * scale
        for name, reference in single.gradients.items():
            used = step.gradients[name]
            self.all += 1
            if used is None or reference is None:
                if used is not reference:
                    self.broken.append(f"'{shown(name)}' has {'no' if used is None else 'a'} gradient, as one rank "
                                       f"{'none' if reference is None else 'one'}")
                else:
                    self.exact += 1
            elif torch.equal(used, reference):
                self.exact += 1
            else:
                self._differs(name, used, reference, bound)

    def _differs(self, name: str, used: torch.Tensor, reference: torch.Tensor, bound: float) -> None:
        distance = (used.double() - reference.double()).abs().reshape(-1)
        element = int(distance.argmax())
        if not float(distance[element]) <= bound:  # NaN is not.
            self.broken.append(
                f"gradient of '{shown(name)}' element {element}: {float(used.reshape(-1)[element]):g}, as one rank "
                f"{float(reference.reshape(-1)[element]):g} (rounding explains {bound:.1g}){_factor(used, reference, bound)}")
        elif bound:
            self.largest = max(self.largest, float(distance[element]) / bound)

    def broken_sentence(self, n_ranks: int) -> str:
        return f"{n_ranks} ranks differ from one in {len(self.broken)} of {self.all} gradients: {self.broken[0]}"

    def sentence(self, n_steps: int, n_ranks: int) -> str:
        text = (f"{n_ranks} ranks, {n_steps} step{'s' * (n_steps > 1)}: {self.exact} of {self.all} gradients equal in every "
                "bit")
        return text if self.exact == self.all else f"{text}, the others within {self.largest:.1g} of the bound on rounding"


def _factor(used: torch.Tensor, reference: torch.Tensor, bound: float) -> str:
    """Whether one is a multiple of the other, and of how much."""
    a, b = used.double().reshape(-1), reference.double().reshape(-1)
    square = float(b @ b)
    if not square or not bool(torch.isfinite(a).all()):
        return ""
    factor = float(a @ b) / square
    fits = float((a - factor * b).abs().max()) <= bound * max(1.0, abs(factor))
    return f": all elements are {factor:.4g} times those of one rank" if fits and factor else ""
