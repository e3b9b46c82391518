"""Whether a loss is multiplied by the number of ranks before it reaches what a collective returned.

A gradient of one element says by how much: what autograd hands to a node whose result is one number is
the slope of the loss in it.
"""
from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 64
# A multiplication by a number rounds twice: the number, when it becomes one of the tensor's type, and the
# product. An addition or a change of type rounds less often.
ROUNDINGS = 2
_FACTORS = ("MulBackward0", "DivBackward0")


class _Slope(NamedTuple):
    value: float
    unit: float  # Half the distance from 1 to the next number of its type.


class _Way(NamedTuple):
    """How far a search has come from the loss, over values of one element alone."""

    roundings: int
    unit: float  # The largest on the way.


def allowance(roundings: int, unit: float) -> float:
    """By how much of itself a number may be off after this many roundings, each by at most `unit` of it:
    (1 + unit) ** n - 1 <= n unit / (1 - n unit)."""
    return roundings * unit / (1.0 - roundings * unit)


class Slopes:
    """The slopes that one backward has for values of one element."""

    def __init__(self) -> None:
        self._roots: list[Any] = []
        self._scale = 1.0
        self._of: dict[Any, _Slope] = {}
        self._handles: list[Any] = []

    def begin(self, roots: list[Any], scale: float = 1.0) -> None:
        """`scale`: what a loss scaler has multiplied the root by."""
        self.end()
        self._roots = list(roots)
        self._scale = scale

    def watch(self, node: Any) -> None:
        """Notes the slope at a node of the graph, if its result is one number."""
        results: Sequence[Any] = getattr(node, "_input_metadata", ())
        if len(self._handles) >= MOST or len(results) != 1 or torch.Size(results[0].shape).numel() != 1:
            return

        def note(grads: tuple[Any, ...]) -> None:
            if grads[0] is not None and grads[0].is_floating_point():
                self._of[node] = _Slope(float(grads[0]), torch.finfo(grads[0].dtype).eps / 2)

        self._handles.append(node.register_prehook(note))

    def is_scaled(self, node: Any, factor: int) -> bool:
        """Whether on each way from the loss to `node` lies a number whose slope is `factor` times the
        loss's own, or that of the number before it."""
        return self._is_cut(node, float(factor), True)

    def is_loss(self, node: Any) -> bool:
        """Whether the loss is what `node` returns, and nothing else."""
        return len(self._roots) == 1 and self._roots[0] is node

    def windows(self, node: Any, factor: int) -> frozenset[int]:
        """The numbers k of micro-steps for which on each way from the loss to `node` lies a number whose
        slope is `factor / k` times the loss's own: one factor that makes up for the ranks and takes the
        mean of the micro-steps. Where the result of `node` is one number, such as the sum of the ranks'
        losses, the factor may also take the mean over some of the ranks, those that have data:
        `factor / (k n)` for n of them."""
        if len(self._roots) != 1 or self._roots[0] not in self._of:
            return frozenset()
        seed = self._of[self._roots[0]].value * self._scale
        ratios = [factor * seed / slope.value for slope in self._of.values() if slope.value]
        sizes = {round(ratio) for ratio in ratios if 1.5 < ratio < 2.0 ** 24}
        cuts = {size for size in sizes if self._is_cut(node, factor / size, False)}
        most = factor if node in self._of else 1
        return frozenset(size // n for size in cuts for n in range(1, most + 1) if size % n == 0)

    def _is_cut(self, node: Any, factor: float, by_one: bool) -> bool:
        """Whether each way from the loss to `node` passes the factor. `by_one`: one operation may be it,
        whatever the loss was multiplied by before."""
        if len(self._roots) != 1:
            return False
        root = self._roots[0]
        lowest = node._sequence_nr()
        order = count()
        # Nodes that were made later come first, so that all ways to a node are known before those from it.
        start = self._of.get(root)
        ways: dict[Any, _Way | None] = {root: _Way(0, start.unit) if start is not None else None}
        todo = [(-root._sequence_nr(), next(order), root)]
        while todo:
            before = heapq.heappop(todo)[2]
            if before is node:
                return False
            for after, _ in before.next_functions:
                if after is None or after._sequence_nr() < lowest:
                    continue
                way = self._go_on(ways[before], after)
                if self._is_factor(root, before, after, way, factor, by_one):
                    continue
                if after not in ways:
                    ways[after] = way
                    heapq.heappush(todo, (-after._sequence_nr(), next(order), after))
                else:
                    ways[after] = _worst(ways[after], way)
        return True

    def _go_on(self, way: _Way | None, after: Any) -> _Way | None:
        slope = self._of.get(after)
        if way is None or slope is None:
            return None
        return _Way(way.roundings + ROUNDINGS, max(way.unit, slope.unit))

    def _is_factor(self, root: Any, before: Any, after: Any, way: _Way | None, factor: float,
                   by_one: bool) -> bool:
        slope, own = self._of.get(after), self._of.get(before)
        if slope is None:
            return False
        if by_one and own is not None and \
                _is_times(slope, own.value, factor, allowance(ROUNDINGS, max(slope.unit, own.unit))):
            return True
        if way is None:
            return False
        # Every number of the loss is once itself, which says nothing of a factor of 1.
        if factor == 1.0 and before.name() not in _FACTORS:
            return False
        seed = self._of[root].value * (1.0 if by_one else self._scale)
        return _is_times(slope, seed, factor, allowance(way.roundings, way.unit))

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._of.clear()
        self._roots.clear()


def _is_times(slope: _Slope, one: float, factor: float, allowed: float) -> bool:
    return bool(one) and abs(slope.value - factor * one) <= allowed * abs(factor * one)


def _worst(one: _Way | None, other: _Way | None) -> _Way | None:
    if one is None or other is None:
        return None
    return _Way(max(one.roundings, other.roundings), max(one.unit, other.unit))
