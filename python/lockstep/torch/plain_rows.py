"""Rows that all_gather returned as plain numbers, in the graph of a loss.

Autograd knows nothing of what a gather returns. Where such rows enter a loss, the node that computes with them has saved them,
and among them the rows that this rank has sent, in its place and bit for bit. A node is not asked for what hooks have packed
away: unpacking may compute a part of the forward anew.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder

FEWEST = 4  # Elements that are not found anywhere by chance.
MOST_LOOKS = 4  # Per line that gathers.
MOST_GATHERS = 4  # That one tensor may be made of.
_RAW = "_raw_saved_"
_AUTOCAST = (torch.bfloat16, torch.float16)  # In which a loss may use what was sent.
# What passes on each element as it is.
_SAME = frozenset(("CloneBackward0", "ToCopyBackward0", "ViewBackward0", "UnsafeViewBackward0", "AliasBackward0",
                   "ReshapeAliasBackward0", "TBackward0", "TransposeBackward0", "UnsqueezeBackward0", "SqueezeBackward1"))


class PlainRows:
    """What one call has sent, and where the graph that is searched now has what it returned. The loss has nothing but plain rows
    where each way from it to what was sent, as the graph has it, leads over plain rows: this rank's own are not put back."""

    def __init__(self, recorder: Recorder, sent: Any, rank: int, size: int) -> None:
        self._n, self._rank, self._size = sent.numel(), rank, size
        self._recorder = recorder
        self._digests = {kind: self._digest(sent.detach().to(kind)) for kind in (sent.dtype, *_AUTOCAST)}
        self.edges = frozenset(_edges_of(sent))
        self.holders: set[Any] = set()  # Nodes that compute with the plain rows, while a graph is searched.

    def _digest(self, rows: Any) -> int:
        return self._recorder.pen.digest(rows) if self._recorder.pen is not None else 0

    def look_at(self, node: Any) -> None:
        if any(self._holds_own_rows(tensor) for tensor in _saved_by(node)):
            self.holders.add(node)

    def _holds_own_rows(self, tensor: Any) -> bool:
        known = self._digests.get(tensor.dtype)
        n_all = tensor.untyped_storage().nbytes() // tensor.element_size()
        if known is None or tensor.requires_grad or tensor.numel() != n_all or n_all % (self._n * self._size):
            return False
        n_gathers = n_all // (self._n * self._size)
        if not 0 < n_gathers <= MOST_GATHERS:
            return False
        blocks = tensor.detach().as_strided((n_gathers * self._size, self._n), (self._n, 1), 0)
        return any(self._digest(block) == known for block in blocks[self._rank::self._size])


def edges_around(roots: list[Any], holders: set[Any], lowest: int) -> set[tuple[int, int]]:
    """The places of the graph that a loss takes values from by some way on which no plain rows lie."""
    found = set()
    nodes = [node for node in roots if node not in holders]
    seen = set(nodes)
    while nodes:
        for after, nth in nodes.pop().next_functions:
            if after is None or after._sequence_nr() < lowest:
                continue
            found.add((after._sequence_nr(), nth))
            if after not in seen and after not in holders:
                seen.add(after)
                nodes.append(after)
    return found


def _edges_of(sent: Any) -> list[tuple[int, int]]:
    """The places of the graph that have the values of `sent`."""
    node, nth, found = sent.grad_fn, sent.output_nr, []
    while node is not None:
        found.append((node._sequence_nr(), nth))
        if node.name() not in _SAME:
            break
        node, nth = node.next_functions[0]
    return found


def _saved_by(node: Any) -> list[Any]:
    found = []
    for name in dir(node):
        if not name.startswith(_RAW):
            continue
        raw = getattr(node, name)
        if getattr(raw, "unpack_hook", raw) is not None:
            continue  # Packed by hooks, several tensors, or a PyTorch that does not say.
        try:
            tensor = raw.unpack()
        except RuntimeError:
            continue  # It has been written to since.
        if torch.is_tensor(tensor) and tensor.layout is torch.strided:
            found.append(tensor)
    return found
