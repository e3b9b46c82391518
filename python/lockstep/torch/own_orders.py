"""Samplers that a program has written, for its own share of the data: whether set_epoch() moves their order on.

    loader = DataLoader(data, batch_sampler=ByLength(lengths, rank, world))
    for epoch in range(10):
        loader.sampler.set_epoch(epoch)       # a sampler of PyTorch's, if any: the batch sampler stays in its first epoch

Nothing says what such a sampler means to do, but its code: it has a set_epoch(), which writes an attribute, and what __iter__ runs reads that.
No function of the program is called for it.
"""
from __future__ import annotations

import dis
import inspect
from typing import TYPE_CHECKING, Any

import torch

from lockstep.torch.data_sets import TRAIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

MOST_FUNCTIONS = 64  # That __iter__ may run, of one class.
PLAIN = (int, float, str)
_OF_OBJECTS = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")


def names_of_epoch(kind: type) -> frozenset[str]:
    """The attributes in the code of set_epoch() that what __iter__ runs has, too. Empty: no order follows from them."""
    setter = _code_of(kind, "set_epoch")
    return frozenset() if setter is None else frozenset(attributes_read(kind) & _attributes_in(setter))


def attributes_read(kind: type) -> set[str]:
    """In what __iter__ runs of its class, of any object."""
    reached: set[str] = set()
    waiting = ["__iter__"]
    names: set[str] = set()
    while waiting and len(reached) < MOST_FUNCTIONS:
        name = waiting.pop()
        code = None if name in reached else _code_of(kind, name)
        if code is not None:
            reached.add(name)
            found = _attributes_in(code)
            names |= found
            waiting += found
    return names


def _code_of(kind: type, name: str) -> CodeType | None:
    """Of a method or a property."""
    value: Any = inspect.getattr_static(kind, name, None)
    if isinstance(value, property):
        value = value.fget
    return getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None


def _attributes_in(code: CodeType) -> set[str]:
    """A function, and the functions and generators that it holds."""
    waiting, names = [code], set()
    while waiting:
        part = waiting.pop()
        names |= {str(one.argval) for one in dis.get_instructions(part) if one.opname in _OF_OBJECTS}
        waiting += [one for one in part.co_consts if inspect.iscode(one)]
    return names


def indices_of(drawn: list[Any]) -> list[int] | None:
    """What a sampler's draws, each an index or a batch of them, are together; None for draws of another kind."""
    try:
        return [int(one) for draw in drawn for one in (draw if isinstance(draw, (list, tuple)) else [draw])]
    except (TypeError, ValueError, RuntimeError):
        return None


class OwnOrders:
    """Of one sampler, from pass to pass."""

    def __init__(self, names: frozenset[str], size: int) -> None:
        self._names = names
        self.size = size  # Of the data set.
        self._last: tuple[int, tuple[Any, ...]] | None = None  # The order and the epoch, as its attributes have it.

    def shuffles(self, sampler: Any, order: list[int]) -> bool:
        """Whether the pass that has been drawn is one of several orders. One that stays as it is although the epoch has moved on
        is meant to."""
        last, now = self._last, (hash(tuple(order)), self._epoch_of(sampler))
        self._last = now
        if order == sorted(order) or not getattr(sampler, "shuffle", True):
            return False
        return last is None or now[0] != last[0] or now[1] == last[1]

    def _epoch_of(self, sampler: Any) -> tuple[Any, ...]:
        held = getattr(sampler, "__dict__", {})
        return tuple(_plain(held.get(name)) for name in sorted(self._names))


def _plain(value: Any) -> Any:
    """What can be compared with its value in a later pass."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and value.device.type == "cpu":
        return value.item()
    return value if isinstance(value, PLAIN) else None


class OwnPass:
    """A pass of which the split and the order become known one after the other, whichever is first. Evaluations may be alike."""

    def __init__(self, write: Callable[[str, list[int]], None]) -> None:
        self._write = write
        self._split = ""
        self._order: list[int] | None = None

    def is_of(self, split: str) -> None:
        if split.partition("/")[0] == TRAIN:
            self._split = split
            self._try()

    def is_drawn(self, draws: list[Any]) -> None:
        self._order = indices_of(draws)
        self._try()

    def _try(self) -> None:
        if self._split and self._order:
            self._write(self._split, self._order)
