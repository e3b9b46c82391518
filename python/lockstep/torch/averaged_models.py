"""The seam to averages of a model's parameters (torch.optim.swa_utils.AveragedModel), which no wrapper keeps equal.

Class patches: __init__, which counts them, and forward: where ranks use an average, it must be the same on
all of them. One that a single rank uses may be that rank's own, and so may buffers, which such an average takes
from whichever forward came last.
"""
from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.swa_utils import AveragedModel

from lockstep.enums import StateKind, StatePoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper

SEAM = "averaged models"
_PREFIX = "module."


class AveragedModels:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._all: list[weakref.ref[Any]] = []  # In the order in which they were made.
        self._used: weakref.WeakKeyDictionary[Any, tuple[Wrapper, int]] = weakref.WeakKeyDictionary()

    def made(self, model: Any) -> None:
        self._all.append(weakref.ref(model))

    def used(self, model: Any) -> None:
        """A forward of an average begins."""
        pen = self._recorder.pen
        if pen is None or torch.is_grad_enabled():
            return
        parameters = {_inner(name): p for name, p in model.named_parameters()}
        wrapper = self._averaged(parameters)
        if wrapper is None or wrapper.hooked or wrapper.parted:
            return  # Ranks that train alone have averages of their own.
        here = wrapper, wrapper.place.sync
        if self._used.get(model) == here:
            return
        self._used[model] = here
        name = self._name(model)
        layout = pen.layout([f"{name}/{one}" for one in parameters])
        pen.states(wrapper.index, StateKind.AUXILIARY, StatePoint.EVAL, layout, list(parameters.values()))

    def _averaged(self, parameters: dict[str, Any]) -> Wrapper | None:
        """The one wrapper whose parameters these are an average of."""
        shapes = {name: p.shape for name, p in parameters.items()}
        like = [wrapper for wrapper in self._recorder.wrapping.all
                if shapes == {name: p.shape for name, p in wrapper.all.items()}]
        return like[0] if len(like) == 1 else None

    def _name(self, model: Any) -> str:
        """A rank that has made more of them than another is not compared with it."""
        if not any(ref() is model for ref in self._all):
            self.made(model)  # Before there was a process group.
        alive = [one for one in (ref() for ref in self._all) if one is not None]
        if len(alive) == 1:
            return "average"
        return f"average {next(i for i, one in enumerate(alive, 1) if one is model)} of {len(alive)}"


def _inner(name: str) -> str:
    while name.startswith(_PREFIX):
        name = name.removeprefix(_PREFIX)
    return name


def install(recorder: Recorder) -> None:
    averages = AveragedModels(recorder)

    def make_init(real: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            real(self, *args, **kwargs)
            recorder.quietly(SEAM, partial(averages.made, self))
        return __init__

    def make_forward(real: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.quietly(SEAM, partial(averages.used, self))
            return real(self, *args, **kwargs)
        return forward

    recorder.patches.wrap(AveragedModel, "__init__", make_init)
    recorder.patches.wrap(AveragedModel, "forward", make_forward)
