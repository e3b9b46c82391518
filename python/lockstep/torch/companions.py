"""The seam to models that a program uses beside the one it trains: teachers, target networks, averages by hand.

No patch: after the first step of a wrapped model, the one other model with parameters of the same names and shapes gets a
forward pre-hook. Ranks that use such a model in their training must have the same one. A copy that was made
before the wrapper broadcast its parameters is each rank's own. What is trained by itself is left alone, and so is a model of
which there are several.
"""
from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from lockstep.enums import StateKind, StatePoint
from lockstep.torch.module_hooks import ModuleHook

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper

SEAM = "companions"


class Companion(ModuleHook):
    """A model like a wrapped one. Its parameters are recorded in evaluations, and in training at forwards that grow apart: they
    may change with each step, and reading them takes as long as reading the model."""

    def __init__(self, recorder: Recorder, wrapper: Wrapper) -> None:
        self._recorder = recorder
        self._wrapper = wrapper
        self._next = 0  # Synchronising forward of the wrapper from which on it is recorded again.
        self._evaluated = -1

    def __call__(self, model: torch.nn.Module, _inputs: Any) -> None:
        self._recorder.quietly(SEAM, lambda: self._used(model))

    def _used(self, model: torch.nn.Module) -> None:
        recorder, wrapper, pen = self._recorder, self._wrapper, self._recorder.pen
        if pen is None or wrapper.gone or recorder.left_out.now:
            return
        if wrapper.parted:
            return  # Ranks that train alone have copies of their own.
        sync = wrapper.place.sync
        evaluates = wrapper.evaluates()
        if evaluates and self._evaluated == sync or not evaluates and sync < self._next:
            return
        named = dict(model.named_parameters())
        if any(p.grad is not None for p in named.values()):
            return  # Each rank may adapt one to data of its own.
        if evaluates:
            self._evaluated = sync
        else:
            self._next = 2 * max(sync, 1)
        subject = "evaluated copy" if evaluates else "copy"
        pen.states(wrapper.index, StateKind.AUXILIARY, StatePoint.EVAL,
                   wrapper.layout([f"{subject}/{name}" for name in named]), list(named.values()))


def _like(recorder: Recorder, model: torch.nn.Module) -> Wrapper | None:
    """The one wrapper whose parameters have the names and shapes of this model's."""
    named = dict(model.named_parameters())
    if not named or any(type(p) is not torch.nn.Parameter for p in named.values()):
        return None
    shapes = {name: p.shape for name, p in named.items()}
    like = [wrapper for wrapper in recorder.wrapping.all
            if wrapper.group == 0 and shapes == {name: p.shape for name, p in wrapper.all.items()}]
    return like[0] if len(like) == 1 else None


def _watch(recorder: Recorder) -> None:
    objects = gc.get_objects()
    modules = [one for one in objects if issubclass(type(one), torch.nn.Module)]
    trained = {id(p) for one in objects if issubclass(type(one), torch.optim.Optimizer)
               for group in getattr(one, "param_groups", ()) for p in group["params"]}
    inside: set[int] = set()
    for module in modules:
        with suppress(Exception):  # One may be half made, or made in a way of its own.
            inside.update(id(part) for part in module._modules.values())
    found: dict[Wrapper, list[torch.nn.Module]] = {}
    for module in modules:
        if id(module) in inside or isinstance(module, (DistributedDataParallel, AveragedModel)):
            continue
        with suppress(Exception):
            wrapper = _like(recorder, module)
            if wrapper is not None and trained.isdisjoint(id(p) for p in module.parameters()):
                found.setdefault(wrapper, []).append(module)
    for wrapper, alike in found.items():
        if len(alike) == 1:
            hook = alike[0].register_forward_pre_hook(Companion(recorder, wrapper))
            recorder.patches.on_undo(hook.remove)


def install(recorder: Recorder) -> None:
    from torch.optim import optimizer

    has_looked = False

    def after(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
        nonlocal has_looked  # A hook must not be removed while hooks run.
        if not has_looked and any(wrapper.place.opt > 0 for wrapper in recorder.wrapping.all):
            has_looked = True
            recorder.quietly(SEAM, lambda: _watch(recorder))

    # Of type checkers' PyTorch, which may be older.
    hook = getattr(optimizer, "register_optimizer_step_post_hook")(after)  # noqa: B009
    recorder.patches.on_undo(hook.remove)
