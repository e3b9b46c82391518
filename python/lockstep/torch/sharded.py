"""The seam to models that fully_shard divides among all ranks (FSDP2).

Class patches: FSDPState._root_pre_forward and _post_forward, for the forward of the outermost module; PyTorch has
no public hook that knows it. A rank has a part of each parameter, gradient and moment, and no two ranks the same one, so
none of them is recorded. What remains to be compared are the options of optimizers, the dropout of ranks, which have different
samples, and of parts what fsdp_parts.py says. Where a model is divided among some of the ranks only, or in another way besides, ranks may share what they draw:
then neither is.
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from lockstep.torch.fsdp_parts import PartGradients, write_initial
from lockstep.torch.stepping import options_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder
    from lockstep.torch.streams import Entered

SEAM = "sharded"
RATE = "learning_rate"  # Not "lr", which laws read of steps: there are none of these.


class ShardedModel:
    """What all ranks hold a part of, as an outermost module."""

    index = -1  # Nothing of it is a wrapper's.
    group = 0

    def __init__(self, module: Any, world: int) -> None:
        self.module = weakref.ref(module)
        self.gradients = PartGradients(module, world)
        self.names = {id(p): name for name, p in module.named_parameters()}


class Sharded:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._models: weakref.WeakKeyDictionary[Any, ShardedModel | None] = weakref.WeakKeyDictionary()
        self._running: tuple[ShardedModel, Entered] | None = None
        self._begun = False  # What the first of them begins with has been looked at.
        self._step = -1  # Outside of wrappers, in which a step of a divided model runs; -1: none does.

    def entering(self, state: Any, module: Any) -> None:
        """The forward of an outermost module begins."""
        if state not in self._models:
            self._models[state] = ShardedModel(module, self.recorder.world) if self._is_of_all(state) else None
        model = self._models[state]
        if model is not None and not self._begun and torch.is_grad_enabled():
            self._begun = True
            self.recorder.quietly(SEAM, lambda: write_initial(self.recorder, module))
        entered = self.recorder.streams.entering(model) if model is not None else None
        self._running = (model, entered) if model is not None and entered is not None else None

    def left(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            self.recorder.streams.left(*running)

    def _is_of_all(self, state: Any) -> bool:
        """Whether each of its parts is divided among all ranks."""
        groups = [group for one in state._state_ctx.all_states for group in _groups_of(one)]
        return bool(groups) and all(group.mesh_info.mesh.size() == self.recorder.world for group in groups)

    def after_backward(self) -> None:
        for model in self._models.values():
            if model is not None:
                self.recorder.quietly(SEAM, model.gradients.after_backward)

    def stepping(self, optimizer: Any) -> None:
        """Writes what it has, at every step: where only some ranks change it, the others say that they have not."""
        names: dict[int, str] = {}
        for model in self._models.values():
            names |= model.names if model is not None else {}
        own_ids = {id(p) for group in optimizer.param_groups for p in group["params"]} if names else set()
        for model in self._models.values():
            if model is not None and not own_ids.isdisjoint(model.names):
                self._write_factor(model)
        pen, self._step = self.recorder.pen, self.recorder.outside.opt if names else -1
        for index, group in enumerate(optimizer.param_groups if names else ()):
            own = [names[id(p)] for p in group["params"] if id(p) in names]
            if pen is None or not own:
                continue
            options = options_of(group)
            written = [RATE if name == "lr" else name for name in options]
            pen.options(-1, type(optimizer).__name__.lower(), index, pen.layout(own), pen.layout(written),
                        list(options.values()))

    def _write_factor(self, model: ShardedModel) -> None:
        self.recorder.quietly(SEAM, lambda: model.gradients.write(self.recorder))

    def stepped(self) -> None:
        """A step is over."""
        self.recorder.count_outside(self._step)
        self._step = -1


def _groups_of(state: Any) -> list[Any]:
    """The parameters that it divides; older versions have one list of them at most."""
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [state._fsdp_param_group] if state._fsdp_param_group is not None else []
    return list(groups)


def install(recorder: Recorder) -> None:
    try:
        from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState
    except ImportError:
        return  # An older version, which has no fully_shard.
    sharded = recorder.sharded = Sharded(recorder)

    def make_pre_forward(real: Callable[..., Any]) -> Callable[..., Any]:
        def _root_pre_forward(self: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
            begins = self._state_ctx.iter_forward_root is None
            result = real(self, module, *args, **kwargs)
            if begins and self._state_ctx.iter_forward_root is self:
                recorder.quietly(SEAM, lambda: sharded.entering(self, module))
            return result
        return _root_pre_forward

    def make_post_forward(real: Callable[..., Any]) -> Callable[..., Any]:
        def _post_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self._state_ctx.iter_forward_root is self:
                recorder.quietly(SEAM, sharded.left)
            return real(self, *args, **kwargs)
        return _post_forward

    recorder.patches.wrap(FSDPState, "_root_pre_forward", make_pre_forward)
    recorder.patches.wrap(FSDPState, "_post_forward", make_post_forward)
