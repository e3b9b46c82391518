"""Errors planted into a result: each is drawn again until it is outside of whatever rounding can do, as exact fractions say."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from drawn_cases import Case, excess_of
from number_types import TYPES, Numbers, NumberType
from orders import chain

MOST_TRIES = 40


@dataclass
class Plant:
    kind: str
    result: Numbers
    elements: list[int]  # Those that were changed.
    rank: int | None = None  # Whose contribution was left out, or added twice, everywhere.


def flipped_bit(rng: np.random.Generator, case: Case, healthy: Numbers) -> Plant:
    i, bit = int(rng.integers(case.size)), int(rng.integers(8 * case.kind.size))
    data = bytearray(case.kind.encode(healthy))
    data[i * case.kind.size + bit // 8] ^= 1 << bit % 8
    return Plant(f"bit {bit} flipped", case.kind.decode(bytes(data)), [i])


def of_one_rank(times: int, where: str) -> Callable[[np.random.Generator, Case, Numbers], Plant]:
    """One rank's contribution is not there (-1), or there twice (+1), in one element, in a stretch, or everywhere: the others are
    added one after the other."""

    def plant(rng: np.random.Generator, case: Case, healthy: Numbers) -> Plant:
        rank, begin = int(rng.integers(case.ranks)), int(rng.integers(case.size))
        end = {"one": begin + 1, "stretch": case.size}.get(where, case.size)
        begin = 0 if where == "all" else begin
        result = healthy.copy()
        sent = case.sent()
        parts = [*sent[:rank], *sent[rank + 1:]] if times < 0 else [*sent, sent[rank]]
        result[begin:end] = case.received(case.wire.encode(chain(case.wire, parts)))[begin:end]
        name = f"rank {rank} {'left out of' if times < 0 else 'added twice to'} {where}"
        return Plant(name, result, list(range(begin, end)), rank if where == "all" else None)

    return plant


def scaled(rng: np.random.Generator, case: Case, healthy: Numbers) -> Plant:
    factor = float(rng.choice([0.5, 2.0, 1.0 / case.ranks, 1.25, -1.0]))
    return Plant(f"all of it times {factor:.3g}", case.kind.rounded(healthy * factor), list(range(case.size)))


def another_element(rng: np.random.Generator, case: Case, healthy: Numbers) -> Plant:
    i, j = int(rng.integers(case.size)), int(rng.integers(case.size))
    result = healthy.copy()
    result[i] = healthy[j]
    return Plant(f"element {i} is that of {j}", result, [i])


def stale(rng: np.random.Generator, case: Case, healthy: Numbers) -> Plant:
    """A chunk that no reduction wrote: what one rank had sent."""
    begin, rank = int(rng.integers(case.size)), int(rng.integers(case.ranks))
    end = min(case.size, begin + 1 + case.size // case.ranks)
    result = healthy.copy()
    result[begin:end] = case.parts[rank][begin:end]
    return Plant(f"[{begin}, {end}) is still what rank {rank} sent", result, list(range(begin, end)))


PLANTS = (flipped_bit, of_one_rank(-1, "one"), of_one_rank(1, "one"), of_one_rank(-1, "stretch"), of_one_rank(1, "stretch"),
          of_one_rank(-1, "all"), of_one_rank(1, "all"), scaled, another_element, stale)


def may_come_from(narrow: NumberType, case: Case, result: Numbers) -> bool:
    """Whether ranks may have exchanged these sums in a narrower type: each is one of its numbers, at least before a mean or a
    factor, or has overflowed in it."""
    factor = float(case.exact_factor())
    sums = narrow.rounded(result / factor)
    comes = (narrow.rounded(result) == result) | ~np.isfinite(result)
    if case.reduction != "sum":
        comes |= case.kind.rounded(sums / case.ranks) == result
        comes |= case.kind.rounded(sums * case.kind.rounded(np.array([factor]))) == result
    return bool(np.all(comes))


def overflows(narrow: NumberType, case: Case, result: Numbers) -> bool:
    """Whether an element that is not finite may be one that this type cannot hold."""
    sums = np.sum(np.abs(case.parts), axis=0) * max(1.0, abs(float(case.exact_factor())))
    return bool(np.any(~np.isfinite(result) & (sums > narrow.largest)))


def plant(rng: np.random.Generator, case: Case, healthy: Numbers, number: int) -> tuple[Plant | None, int]:
    """The plant, or None where none of the tries was outside; and how many tries stayed inside."""
    for tries in range(MOST_TRIES):
        with np.errstate(all="ignore"):
            planted = PLANTS[number % len(PLANTS)](rng, case, healthy)
            narrower = [kind for kind in TYPES.values()
                        if kind.size < case.kind.size and may_come_from(kind, case, planted.result)]
            if any(overflows(kind, case, planted.result) for kind in narrower):
                continue
        unit = max([case.kind.unit, *(kind.unit for kind in narrower)])
        if excess_of(case, planted.result, unit=unit).far > 1.0:
            return planted, tries
    return None, MOST_TRIES
