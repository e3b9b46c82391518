"""Cases of all-reduces, drawn from a seed, and what is known of their results without the command."""
from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from libraries import Algorithm
from number_types import TYPES, Numbers, NumberType

RANKS = (2, 3, 4, 5, 6, 7, 8)
DRAWN_AS = ("wide", "wide", "normal", "normal", "cancelling", "tiny", "huge", "odd", "integers", "zeros")
REDUCTIONS = ("sum", "sum", "sum", "mean-before", "mean-after", "scaled")


@dataclass
class Case:
    name: str
    ranks: int
    kind: NumberType  # What the command is shown.
    wire: NumberType  # What the library adds.
    drawn_as: str
    reduction: str
    factor: float | None
    parts: list[Numbers]  # By rank, numbers of `kind`.
    results: dict[Algorithm, Numbers] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.parts[0])

    def sent(self) -> list[Numbers]:
        """What the library is given."""
        if self.reduction == "mean-before":
            scaled = [self.kind.rounded(part / self.ranks) for part in self.parts]
        elif self.factor is not None:
            factor = self.kind.rounded(np.array([self.factor]))[0]
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = [self.kind.rounded(part * factor) for part in self.parts]
        else:
            scaled = self.parts
        return [self.wire.rounded(part) for part in scaled]

    def received(self, data: bytes) -> Numbers:
        """What a user has in the end."""
        values = self.kind.rounded(self.wire.decode(data))
        return self.kind.rounded(values / self.ranks) if self.reduction == "mean-after" else values

    def exact_factor(self) -> Fraction:
        if self.factor is not None:
            return Fraction(self.factor)
        return Fraction(1, 1 if self.reduction == "sum" else self.ranks)


def draw_parts(rng: np.random.Generator, kind: NumberType, drawn_as: str, ranks: int, size: int) -> list[Numbers]:
    span = 8 if kind.name == "f16" else 24
    values = rng.standard_normal((ranks, size))
    if drawn_as in ("wide", "zeros"):
        values = np.ldexp(rng.uniform(-1, 1, (ranks, size)), rng.integers(-span // 2, span // 2, (ranks, size)))
    if drawn_as == "zeros":
        values *= rng.choice([0.0, -0.0, 1.0], (ranks, size))
    if drawn_as == "cancelling":
        values = np.vstack([values, -values])[rng.permutation(2 * ranks)[:ranks]]
        values[-1] = -values[:-1].sum(axis=0) * (1 + rng.choice([0, 2.0**-9], size))
    if drawn_as == "tiny":
        values = rng.integers(-300, 300, (ranks, size)) * float(kind.smallest)
        values += (rng.uniform(size=(ranks, size)) < 0.3) * float(kind.smallest_normal) * rng.choice([1.0, -1.0], (ranks, size))
    if drawn_as == "huge":
        values = rng.uniform(-1, 1, (ranks, size)) * kind.largest
    if drawn_as == "integers":
        values = rng.integers(-50, 50, (ranks, size)).astype(np.float64)
    if drawn_as == "odd":
        odd = rng.uniform(size=(ranks, size))
        values[odd < 0.03] = np.nan
        values[(odd >= 0.03) & (odd < 0.06)] = np.inf
        values[(odd >= 0.06) & (odd < 0.08)] = -np.inf
        values[(odd >= 0.08) & (odd < 0.2)] = -0.0
    return [kind.rounded(row) for row in values]


def draw_case(rng: np.random.Generator, name: str, ranks: int) -> Case:
    kind = TYPES[str(rng.choice(["f32", "f32", "f32", "f64", "f16", "bf16"]))]
    wire = kind
    if kind.name == "f32" and rng.uniform() < 0.15:
        wire = TYPES[str(rng.choice(["f16", "bf16"]))]
    drawn_as = str(rng.choice(DRAWN_AS if wire is kind else ("wide", "normal")))
    reduction = str(rng.choice(REDUCTIONS))
    factor = float(rng.choice([0.5, 0.1, 3.0, -1.0 / 3.0])) if reduction == "scaled" else None
    size = int(rng.choice([1, ranks, 17, 40, 130, 300]))
    return Case(name, ranks, kind, wire, drawn_as, reduction, factor, draw_parts(rng, kind, drawn_as, ranks, size))


@dataclass(frozen=True)
class Excess:
    """By how much a result misses the exact one, as parts of the theorem's bound: at most 1 where nothing else happened."""

    near: float  # The worst element's.
    far: float  # Beside everything that could widen the interval: truncation, flushed numbers, more roundings.


def excess_of(case: Case, result: Numbers, flushed: bool = False, unit: Fraction | None = None) -> Excess:
    """In exact fractions. An element that is not finite counts as 0 where an order may give it, and as infinite otherwise."""
    near = far = 0.0
    for i in range(case.size):
        parts = [float(part[i]) for part in case.parts]
        if not all(np.isfinite(parts)):
            expected = odd_result(parts, case.exact_factor() > 0)
            got = float(result[i])
            if not (expected == got or (np.isnan(expected) and np.isnan(got))):
                near = far = float("inf")
            continue
        ratio = excess_at(case, [Fraction(x) for x in parts], float(result[i]), flushed, unit)
        near, far = max(near, ratio.near), max(far, ratio.far)
    return Excess(near, far)


def odd_result(parts: list[float], positive: bool) -> float:
    if any(np.isnan(parts)) or (np.inf in parts and -np.inf in parts):
        return float("nan")
    return float("inf") if (np.inf in parts) == positive else float("-inf")


def excess_at(case: Case, parts: list[Fraction], result: float, flushed: bool, unit: Fraction | None) -> Excess:
    n, kind, factor = len(parts), case.kind, case.exact_factor()
    widest = unit or kind.unit
    stretch = max(Fraction(1), abs(factor))
    absolute = sum((abs(x) for x in parts), Fraction(0))
    may_overflow = absolute * stretch * (1 + n * case.wire.unit) > Fraction(case.wire.largest)
    if not np.isfinite(result):
        return Excess(0.0, 0.0) if may_overflow else Excess(float("inf"), float("inf"))
    missed = abs(Fraction(result) - sum(parts, Fraction(0)) * factor)
    roundings = n - 1 if case.reduction == "sum" else n + 3
    near = roundings * kind.unit * absolute * abs(factor)
    if case.reduction != "sum":
        near += 2 * n * kind.smallest * stretch
    if flushed:
        near += 2 * n * kind.smallest_normal * stretch
    grown = (1 + 2 * widest) ** (n + 6)
    far = (grown - 1) * absolute * abs(factor) + 8 * n * kind.smallest_normal * stretch
    # Truncated sums stay at the largest number, and end anywhere.
    saturates = absolute * stretch * grown > Fraction(case.wire.largest)
    return Excess(parts_of(missed, near), 0.0 if saturates else parts_of(missed, far))


def parts_of(missed: Fraction, whole: Fraction) -> float:
    if missed == 0:
        return 0.0
    return float(missed / whole) if whole else float("inf")
