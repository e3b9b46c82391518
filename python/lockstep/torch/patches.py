"""Replacing attributes of PyTorch's classes and modules, and putting them back."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Switch:
    """A replaced attribute that is put back while no seam needs to look."""

    def __init__(self, owner: Any, name: str, looked: Any, real: Any) -> None:
        self._owner, self._name = owner, name
        self._values = {True: looked, False: real}
        self._is_on = True

    def turn(self, on: bool) -> None:
        if on is not self._is_on and getattr(self._owner, self._name) is self._values[self._is_on]:
            self._is_on = on
            setattr(self._owner, self._name, self._values[on])


class Patches:
    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def wrap(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
        """Replaces owner.name by make(owner.name), which looks the same from outside.

        Returns: False where the owner has no such attribute.
        """
        real = getattr(owner, name, None)
        if real is None:
            return False
        inherited = name not in vars(owner)
        setattr(owner, name, functools.wraps(real)(make(real)))
        self._undo.append(lambda: delattr(owner, name) if inherited else setattr(owner, name, real))
        return True

    def switch(self, owner: Any, name: str,
               make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Switch | None:
        """As wrap(), of an attribute that is the owner's own."""
        real = vars(owner).get(name)
        if real is None or not self.wrap(owner, name, make):
            return None
        return Switch(owner, name, getattr(owner, name), real)

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """For what is known under several names."""
        real = getattr(owner, name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, real))

    def on_undo(self, action: Callable[[], None]) -> None:
        """For hooks, which have their own way of being removed."""
        self._undo.append(action)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
