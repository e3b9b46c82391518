"""Whether a loss is multiplied by the number of ranks before it reaches what a collective returned.

A gradient of one element says by how much: what autograd hands to a node whose result is one number is
the slope of the loss in it.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 64
ROUNDINGS = 1e-5  # Of a product or two in single precision.


class Slopes:
    """The slopes that one backward has for values of one element."""

    def __init__(self) -> None:
        self._roots: list[Any] = []
        self._of: dict[Any, float] = {}
        self._handles: list[Any] = []

    def begin(self, roots: list[Any]) -> None:
        self.end()
        self._roots = list(roots)

    def watch(self, node: Any) -> None:
        """Notes the slope at a node of the graph, if its result is one number."""
        results: Sequence[Any] = getattr(node, "_input_metadata", ())
        if len(self._handles) >= MOST or len(results) != 1 or torch.Size(results[0].shape).numel() != 1:
            return

        def note(grads: tuple[Any, ...]) -> None:
            if grads[0] is not None:
                self._of[node] = float(grads[0])

        self._handles.append(node.register_prehook(note))

    def is_scaled(self, node: Any, factor: int) -> bool:
        """Whether on each way from the loss to `node` lies a number whose slope is `factor` times the
        loss's own, or that of the number before it."""
        if len(self._roots) != 1:
            return False
        root = self._roots[0]
        seed = self._of.get(root, 0.0)
        lowest = node._sequence_nr()
        todo, seen = [root], {root}
        while todo:
            before = todo.pop()
            if before is node:
                return False
            for after, _ in before.next_functions:
                if after is None or after in seen or after._sequence_nr() < lowest:
                    continue
                if self._cuts(before, after, seed, factor):
                    continue
                seen.add(after)
                todo.append(after)
        return True

    def _cuts(self, before: Any, after: Any, seed: float, factor: int) -> bool:
        slope = self._of.get(after)
        if slope is None:
            return False
        return any(one and abs(slope / one / factor - 1.0) < ROUNDINGS for one in (seed, self._of.get(before)))

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._of.clear()
        self._roots.clear()
