"""The seam to Module.load_state_dict: a state of which the model has not one name.

With strict=False PyTorch says so only in what the call returns, and training goes on from initial values. A state that was
saved from a wrapper and is loaded into what it wraps, or the other way round, is the usual reason. Every rank does the same, so
no law sees it: the rank says it at its end.
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import LogKind
from lockstep.torch.recorder import say
from lockstep.torch.sites import site_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "loading"
PREFIX = "module."


class Unloaded:
    """Modules into which a state was loaded of which they have no name. Programs that try several forms of names
    load something in the end, and are forgotten."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}

    def loaded(self, module: torch.nn.Module, names: list[str], result: Any, place: tuple[str, int]) -> None:
        """`result`: what load_state_dict returned. Where nothing was loaded it names all that the model has: asking the model
        itself would run its hooks, which may communicate."""
        for part in module.modules():
            known = self._texts.get(id(part))
            if known is not None and known[0]() is part:  # Not another one that was given the same place.
                del self._texts[id(part)]
        own, unexpected = set(getattr(result, "missing_keys", ())), getattr(result, "unexpected_keys", ())
        if not names or not own or len(unexpected) < len(names):
            return
        self._texts[id(module)] = (weakref.ref(module), _text(names, own, place))

    def texts(self) -> list[str]:
        return [text for _, text in self._texts.values()]


def _text(names: list[str], own: set[str], place: tuple[str, int]) -> str:
    where = f" at {place[0]}:{place[1]}" if place[0] else ""
    given = f"{len(names)} names, such as '{names[0]}'," if len(names) > 1 else f"one name, '{names[0]}',"
    text = f"load_state_dict(strict=False){where} was given {given} none of which the model has"
    for how, others in (("with", {PREFIX + name for name in names}),
                        ("without", {name[len(PREFIX):] for name in names if name.startswith(PREFIX)})):
        if others & own:
            return f"{text}; {how} '{PREFIX}' in front it has {len(others & own)}"
    return text


def install(recorder: Recorder) -> None:
    unloaded = Unloaded()

    def make(real: Callable[..., Any]) -> Callable[..., Any]:
        def load_state_dict(self: torch.nn.Module, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(self, state_dict, *args, **kwargs)
            place = site_here()
            recorder.quietly(SEAM, lambda: unloaded.loaded(self, list(state_dict), result, place))
            recorder.quietly(SEAM, lambda: recorder.loaded.update(self.modules()))
            return result
        return load_state_dict

    def write() -> None:
        for text in unloaded.texts():
            say(f"rank {recorder.rank}: {text}: nothing was loaded")
            if recorder.pen is not None:
                recorder.pen.log(LogKind.NOT_LOADED, text)

    recorder.patches.wrap(torch.nn.Module, "load_state_dict", make)
    recorder.before_end.append(write)
