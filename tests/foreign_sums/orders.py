"""Orders of adding, written once more: what the command says of a result is computed again here."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from number_types import Numbers, NumberType


def chain(kind: NumberType, parts: Sequence[Numbers]) -> Numbers:
    total = parts[0]
    for part in parts[1:]:
        total = kind.added(total, part)
    return total


def neighbours(kind: NumberType, parts: Sequence[Numbers]) -> Numbers:
    left = list(parts)
    while len(left) > 1:
        pairs = [kind.added(left[i], left[i + 1]) for i in range(0, len(left) - 1, 2)]
        left = pairs + ([left[-1]] if len(left) % 2 else [])
    return left[0]


def halves(kind: NumberType, parts: Sequence[Numbers]) -> Numbers:
    left = list(parts)
    while len(left) > 1:
        half = len(left) // 2
        pairs = [kind.added(left[i], left[i + half]) for i in range(half)]
        left = pairs + ([left[-1]] if len(left) % 2 else [])
    return left[0]


def folded(kind: NumberType, parts: Sequence[Numbers]) -> Numbers:
    extra = len(parts) - (1 << (len(parts).bit_length() - 1))
    pairs = [kind.added(parts[2 * i], parts[2 * i + 1]) for i in range(extra)]
    return neighbours(kind, pairs + list(parts[2 * extra:]))


def blocks(kind: NumberType, parts: Sequence[Numbers]) -> Numbers:
    sums, begin = [], 0
    while begin < len(parts):
        size = 1 << ((len(parts) - begin).bit_length() - 1)
        sums.append(neighbours(kind, parts[begin:begin + size]))
        begin += size
    total = sums.pop()
    while sums:
        total = kind.added(sums.pop(), total)
    return total


SHAPES = {
    "chain": chain,
    "backward chain": chain,
    "pairs of neighbours": neighbours,
    "pairs of halves": halves,
    "folded pairs of neighbours": folded,
    "blocks of neighbours": blocks,
}


def added_as(kind: NumberType, run: dict[str, object], parts: Sequence[Numbers], factor: float | None) -> Numbers:
    """What the order of one run of the command's answer gives; `factor` is that of --factor."""
    n, first, shape = len(parts), int(str(run["first"])), str(run["shape"])
    step = -1 if shape == "backward chain" else 1
    arranged = [parts[(first + step * i) % n] for i in range(n)]
    mean = str(run["mean"])

    def scaled(values: Numbers) -> Numbers:
        if mean.startswith("divided"):
            return kind.rounded(wide(values) / n)
        reciprocal = kind.rounded(np.array([factor if factor is not None else 1.0 / n]))[0]
        return kind.rounded(wide(values) * reciprocal)

    def wide(values: Numbers) -> Numbers:
        return values

    if mean.endswith("before"):
        arranged = [scaled(part) for part in arranged]
    total = SHAPES[shape](kind, arranged)
    return scaled(total) if mean.endswith("after") else total


def documented(library: str, name: str, kind: NumberType, parts: Sequence[Numbers]) -> Numbers | None:
    """In which order the sources of a library say that an algorithm adds; None: not written down here."""
    n, size = len(parts), len(parts[0])
    if (library, name) == ("openmpi", "linear"):
        return chain(kind, parts[::-1])
    if (library, name) == ("openmpi", "ring") and size >= n:
        # The first chunks are one element longer; chunk k begins at rank k.
        bounds = np.cumsum([0] + [size // n + (k < size % n) for k in range(n)])
        chunks = [chain(kind, [parts[(k + i) % n][bounds[k]:bounds[k + 1]] for i in range(n)]) for k in range(n)]
        return np.concatenate(chunks)
    if (library, name) in (("openmpi", "recursive_doubling"), ("mpich", "recursive_doubling"), ("openmpi", "rabenseifner"),
                           ("mpich", "reduce_scatter_allgather")) and size >= n:
        return folded(kind, parts)
    if (library, name) == ("gloo", "halving_doubling"):
        return blocks(kind, parts)
    return None
