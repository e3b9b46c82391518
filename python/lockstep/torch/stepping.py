"""The seam to optimizers: what a step consumes and what it leaves behind.

Public hooks of all optimizers of the process (register_optimizer_step_pre_hook and its twin). Class
patch: GradScaler.step, since a step that it skips reaches no optimizer.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from lockstep.words import GradPoint, StateKind, StatePoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper

SEAM = "stepping"


class _Share:
    """What one optimizer updates of one wrapper."""

    def __init__(self, wrapper: Wrapper) -> None:
        self.wrapper = wrapper
        self.named: dict[str, torch.Tensor] = {}


class Stepping:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.n_steps = 0
        self.depth = 0  # A sharding optimizer steps the one inside it.
        self.scale = 1.0
        self._shares: WeakKeyDictionary[Any, tuple[tuple[int, ...], list[_Share]]] = WeakKeyDictionary()

    def shares_of(self, optimizer: Any) -> list[_Share]:
        """By wrapper. Looked up again only after a wrapper or a parameter has been added."""
        shape = (len(self.recorder.wrapping.all), *(len(g["params"]) for g in optimizer.param_groups))
        known = self._shares.get(optimizer)
        if known is None or known[0] != shape:
            known = self._shares[optimizer] = (shape, self._look_up(optimizer))
        return known[1]

    def _look_up(self, optimizer: Any) -> list[_Share]:
        shares: dict[int, _Share] = {}
        owners = {id(p): (wrapper, name) for wrapper in self.recorder.wrapping.all
                  for name, p in wrapper.all.items()}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in owners:
                    wrapper, name = owners[id(parameter)]
                    shares.setdefault(wrapper.index, _Share(wrapper)).named[name] = parameter
        return list(shares.values())

    def before(self, optimizer: Any) -> None:
        pen = self.recorder.pen
        if pen is None:
            return
        self.recorder.poll()
        for share in self.shares_of(optimizer):
            wrapper = share.wrapper
            self.recorder.current = wrapper.place
            pen.grads(wrapper.index, GradPoint.USED, wrapper.layout(list(share.named)),
                      [p.grad for p in share.named.values()])

    def after(self, optimizer: Any, skipped: bool = False) -> None:
        recorder, pen = self.recorder, self.recorder.pen
        if pen is None:
            return
        self.n_steps += 1
        shares = self.shares_of(optimizer)
        rate = float(optimizer.param_groups[0].get("lr", 0.0)) if optimizer.param_groups else 0.0
        for share in shares:
            wrapper = share.wrapper
            wrapper.write_states(StateKind.PARAM, StatePoint.STEP, share.named)
            wrapper.write_states(StateKind.OPTIMIZER, StatePoint.STEP, _state_of(optimizer, share))
        names = [name for share in shares for name in share.named]
        if not shares:
            return
        place = shares[0].wrapper.place if len(shares) == 1 else recorder.outside
        pen.step(place.wrapper, rate, self.scale, skipped, skipped, shares[0].wrapper.layout(names))
        for moved in {id(p): p for p in (place, *(s.wrapper.place for s in shares))}.values():
            moved.opt += not skipped
            moved.micro = -1
            recorder.moved(moved)


def _state_of(optimizer: Any, share: _Share) -> dict[str, torch.Tensor]:
    if not isinstance(optimizer.state, dict) or hasattr(optimizer, "consolidate_state_dict"):
        return {}  # Sharded: ranks hold different moments on purpose.
    return {f"{name}.{key}": value for name, parameter in share.named.items()
            for key, value in sorted(optimizer.state.get(parameter, {}).items())
            if torch.is_tensor(value)}


def install(recorder: Recorder) -> None:
    from torch.optim import optimizer as module

    stepping = Stepping(recorder)

    def before(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        stepping.depth += 1
        if stepping.depth == 1:
            recorder.quietly(SEAM, lambda: stepping.before(optimizer))

    def after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        stepping.depth = max(0, stepping.depth - 1)
        if stepping.depth == 0:
            recorder.quietly(SEAM, lambda: stepping.after(optimizer))

    def make_scaled(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            n_steps = stepping.n_steps
            stepping.scale = recorder.quietly(SEAM, self.get_scale) or 1.0
            try:
                result = real(self, optimizer, *args, **kwargs)
                if stepping.n_steps == n_steps:  # An infinity was found: no step was taken.
                    recorder.quietly(SEAM, lambda: stepping.after(optimizer, skipped=True))
            finally:
                stepping.scale = 1.0
            return result
        return step

    for name, hook in (("register_optimizer_step_pre_hook", before),
                       ("register_optimizer_step_post_hook", after)):
        recorder.patches.on_undo(getattr(module, name)(hook).remove)
    for owner in (getattr(torch.amp, "GradScaler", None), torch.cuda.amp.GradScaler):
        if owner is not None and "step" in vars(owner):
            recorder.patches.wrap(owner, "step", make_scaled)
