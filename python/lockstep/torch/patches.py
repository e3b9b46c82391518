"""Replacing attributes of PyTorch's classes and modules, and putting them back."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


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
