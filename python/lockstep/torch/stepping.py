"""The seam to optimizers: what a step consumes and what it leaves behind.

Public hooks of all optimizers of the process (register_optimizer_step_pre_hook and its twin). Class
patches: GradScaler.step, since a step that it skips reaches no optimizer; zero_grad of optimizers and
modules.
"""
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from lockstep.enums import GradPoint, StateKind, StatePoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep._core import Pen
    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper

SEAM = "stepping"
OUTSIDE = -1  # The wrapper of what no wrapper has.
MOST_WIRED = 4096  # Elements of a parameter that is looked at in every window.
_NOT_OPTIONS = frozenset(("params", "foreach", "fused", "capturable", "differentiable"))


class _Share:
    """What one optimizer updates of one wrapper."""

    def __init__(self, wrapper: Wrapper) -> None:
        self.wrapper = wrapper
        self.named: dict[str, torch.Tensor] = {}
        self.groups: dict[int, list[str]] = {}  # Names by parameter group.
        self._wires: list[tuple[int, list[torch.Tensor]]] | None = None
        self._layout: int | None = None

    def put_in_order(self, nth: dict[int, int]) -> None:
        """As the module has them, by their ids: ranks may list the same parameters in other orders, and their events must
        meet all the same."""
        self.named = dict(sorted(self.named.items(), key=lambda item: nth[id(item[1])]))
        for names in self.groups.values():
            names.sort(key=lambda name: nth[id(self.named[name])])

    @property
    def wires(self) -> list[tuple[int, list[torch.Tensor]]]:
        """Trained parameters that are small enough to be looked at in every window, in turn."""
        if self._wires is None:
            self._wires = [(self.wrapper.layout([name]), [p]) for name, p in self.named.items()
                           if p.requires_grad and p.numel() <= MOST_WIRED]
        return self._wires

    @property
    def layout(self) -> int:
        if self._layout is None:
            self._layout = self.wrapper.layout(list(self.named))
        return self._layout


class _Strays:
    """The parameters of an optimizer that no wrapper has."""

    def __init__(self) -> None:
        self.named: dict[str, torch.Tensor] = {}
        self.has_gradient = False  # In the step that is being taken, as far as it is looked at.
        self._stepped: list[str] | None = None  # What that step is recorded of.

    def write_used(self, pen: Pen) -> None:
        """What the step is going to use."""
        grads = [parameter.grad for parameter in self.named.values()]
        self.has_gradient = any(grad is not None for grad in grads)
        if self.has_gradient:
            self._stepped = list(self.named)
            pen.grads(OUTSIDE, GradPoint.USED, pen.layout(self._stepped), grads)
        elif self._stepped is None:  # A first step without a gradient: they may be of a model that has been replaced.
            self._stepped = [name for name, parameter in self.named.items() if parameter.requires_grad]

    def write_step(self, pen: Pen, rate: float) -> None:
        if self._stepped:
            pen.step(OUTSIDE, rate, 1.0, False, False, pen.layout(self._stepped))
            self._stepped = []
        self.has_gradient = False


class Stepping:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.n_steps = 0
        self.depth = 0  # A sharding optimizer steps the one inside it.
        self.scale = 1.0
        self._stepped: tuple[Any, list[_Share]] = (None, [])  # Of the step that is being taken.
        self._shares: WeakKeyDictionary[Any, tuple[list[int], list[_Share]]] = WeakKeyDictionary()
        self._strays: WeakKeyDictionary[Any, _Strays] = WeakKeyDictionary()
        self._known: WeakKeyDictionary[Any, dict[tuple[int, int], Any]] = WeakKeyDictionary()

    def shares_of(self, optimizer: Any) -> list[_Share]:
        """By wrapper. Looked up again only after a wrapper or a parameter has been added."""
        shape = [self.recorder.wrapping.version, self.recorder.wrapping.moves]
        for group in optimizer.param_groups:
            shape.append(len(group["params"]))
        known = self._shares.get(optimizer)
        if known is None or known[0] != shape:
            known = self._shares[optimizer] = (shape, self._look_up(optimizer))
        return known[1]

    def _look_up(self, optimizer: Any) -> list[_Share]:
        shares: dict[int, _Share] = {}
        owners = self.recorder.wrapping.owners()
        known = all(id(p) in owners for group in optimizer.param_groups for p in group["params"])
        if not known:
            owners = owners | self.recorder.wrapping.since_wrapping()
        strays = self._strays[optimizer] = _Strays()
        ignored = set() if known else self.recorder.wrapping.ignored()
        left_out = {number: name for wrapper in self.recorder.wrapping.all
                    for number, name in wrapper.left_out.items()}
        for index, group in enumerate(optimizer.param_groups):
            for nth, parameter in enumerate(group["params"]):
                if id(parameter) not in owners:
                    if id(parameter) not in ignored:
                        name = left_out.get(id(parameter), f"param_groups[{index}].params[{nth}]")
                        strays.named[name] = parameter
                else:
                    wrapper, name = owners[id(parameter)]
                    share = shares.setdefault(wrapper.index, _Share(wrapper))
                    share.named[name] = parameter
                    share.groups.setdefault(index, []).append(name)
        for share in shares.values():
            share.put_in_order({number: nth for nth, number in enumerate(owners)})
        return list(shares.values())

    def zeroed(self, optimizer: Any, to_none: bool) -> None:
        for wrapper in self.recorder.wrapping.all:
            if wrapper.looks:
                break
        else:
            return
        for share in self.shares_of(optimizer):
            if share.wrapper.looks:
                share.wrapper.gradients.zeroed(share.named, to_none)

    def before(self, optimizer: Any) -> None:
        pen = self.recorder.pen
        if pen is None:
            return
        self.recorder.poll()
        self._stepped = (optimizer, self.shares_of(optimizer))
        if self.recorder.sharded is not None:
            self.recorder.sharded.stepping(optimizer)
        if any(wrapper.looks and not wrapper.gone for wrapper in self.recorder.wrapping.all):
            self._strays[optimizer].write_used(pen)
        for share in self._stepped[1]:
            wrapper = share.wrapper
            self.recorder.current = wrapper.place
            if wrapper.place.ahead:  # The optimizer takes part in join, too: this is the others' step.
                wrapper.place.ahead = False
                wrapper.place.opt -= 1
                self.recorder.moved(wrapper.place)
            if wrapper.looks:
                self._write_options(optimizer, share)
                pen.grads(wrapper.index, GradPoint.USED, share.layout,
                          [p.grad for p in share.named.values()])

    def _write_options(self, optimizer: Any, share: _Share) -> None:
        """What the optimizer was made with, and again when something of it has changed."""
        known = self._known.setdefault(optimizer, {})
        pen, wrapper = self.recorder.pen, share.wrapper
        schedules = self.recorder.schedules
        schedule: dict[str, float] = {}
        if schedules is not None:
            schedule = self.recorder.quietly(SEAM, partial(schedules.options_of, optimizer)) or {}
        for index, names in share.groups.items():
            options = options_of(optimizer.param_groups[index]) | schedule
            if pen is not None and known.get((wrapper.index, index)) != options:
                known[wrapper.index, index] = options
                pen.options(wrapper.index, type(optimizer).__name__.lower(), index,
                            wrapper.layout(names), pen.layout(list(options)), list(options.values()))

    def after(self, optimizer: Any, skipped: bool = False) -> None:
        recorder, pen = self.recorder, self.recorder.pen
        if pen is None:
            return
        self.n_steps += 1
        if recorder.left_out.now:
            if skipped:
                recorder.left_out.end()
            elif recorder.left_out.stepped(optimizer, [share.wrapper for share in self.shares_of(optimizer)]):
                return
        if recorder.exchanges is not None:
            recorder.exchanges.stepped()
        before, shares = self._stepped
        if before is not optimizer:
            shares = self.shares_of(optimizer)
        self._stepped = (None, [])
        rate = float(optimizer.param_groups[0].get("lr", 0.0)) if optimizer.param_groups else 0.0
        for share in shares:
            self._write_states(optimizer, share)
        self._strays[optimizer].write_step(pen, rate)
        if not shares:
            if recorder.wrapping.all and not _has_gradient(optimizer):
                pen.step(-1, rate, self.scale, skipped, skipped, pen.layout([]))
            return
        for share in shares:  # A wrapper's place is in its own steps, whatever else the optimizer steps.
            place = share.wrapper.place
            rate = float(optimizer.param_groups[min(share.groups)].get("lr", 0.0))
            pen.step(place.wrapper, rate, self.scale, skipped, skipped, share.layout)
            place.opt += not skipped
            place.micro = -1
            recorder.moved(place)
        for share in shares:
            if not skipped:
                share.wrapper.write_stepped_alone()
            share.wrapper.step_over()

    def _write_states(self, optimizer: Any, share: _Share) -> None:
        wrapper = share.wrapper
        if wrapper.looks:
            wrapper.write_states(StateKind.PARAM, StatePoint.STEP, share.named)
            if wrapper.frozen:
                wrapper.write_states(StateKind.PARAM, StatePoint.STEP,
                                     {name: p for name, p in wrapper.frozen.items() if name not in share.named})
            wrapper.write_states(StateKind.OPTIMIZER, StatePoint.STEP, _state_of(optimizer, share))
            self.recorder.annotations.write_replicated(wrapper.index, StatePoint.STEP)
            return
        # One small parameter, another one each time.
        wires, pen = share.wires, self.recorder.pen
        if wires and pen is not None:
            layout, tensors = wires[wrapper.place.opt % len(wires)]
            pen.states(wrapper.index, StateKind.PARAM, StatePoint.STEP, layout, tensors)


def options_of(group: dict[str, Any]) -> dict[str, float]:
    """The numbers and flags of a parameter group, by PyTorch's names; pairs are numbered from 1."""
    options: dict[str, float] = {}
    for name, value in group.items():
        if name in _NOT_OPTIONS or value is None or isinstance(value, str):
            continue
        if isinstance(value, (tuple, list)):
            options.update((f"{name.removesuffix('s')}{i}", float(one))
                           for i, one in enumerate(value, 1) if _is_number(one))
        elif _is_number(value):
            options[name] = float(value)
    return options


def _has_gradient(optimizer: Any) -> bool:
    return any(p.grad is not None for group in optimizer.param_groups for p in group["params"])


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or torch.is_tensor(value) and value.numel() == 1


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
        if stepping.depth > 1 or recorder.left_out.now:
            return
        try:
            if recorder.averaging is not None:
                recorder.averaging.stepping(optimizer)
            if recorder.shard_factors is not None:
                recorder.shard_factors.stepping(optimizer)
            stepping.before(optimizer)
        except Exception as error:
            recorder.trouble(SEAM, error)

    def after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        stepping.depth = max(0, stepping.depth - 1)
        if stepping.depth > 0:
            return
        try:
            left_out = recorder.left_out
            if left_out.now and left_out.optimizer is optimizer and left_out.stepped_again():
                stepping.n_steps += 1
                return
            stepping.after(optimizer)
            if recorder.averaging is not None:
                recorder.averaging.stepped(optimizer)
            recorder.batches.stepped(optimizer)
            if recorder.sharded is not None:
                recorder.sharded.stepped()
            if recorder.shard_factors is not None:
                recorder.shard_factors.stepped()
        except Exception as error:
            recorder.trouble(SEAM, error)

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

    def make_zero(real: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(self: Any, set_to_none: bool = True) -> Any:
            result = real(self, set_to_none)
            try:
                stepping.zeroed(self, set_to_none)
            except Exception as error:
                recorder.trouble(SEAM, error)
            return result
        return zero_grad

    def make_zero_of_module(real: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(self: Any, set_to_none: bool = True) -> Any:
            result = real(self, set_to_none)
            recorder.quietly(SEAM, lambda: _zeroed_by_module(recorder, self, set_to_none))
            return result
        return zero_grad

    for name, hook in (("register_optimizer_step_pre_hook", before),
                       ("register_optimizer_step_post_hook", after)):
        recorder.patches.on_undo(getattr(module, name)(hook).remove)
    recorder.patches.wrap(module.Optimizer, "zero_grad", make_zero)
    recorder.patches.wrap(torch.nn.Module, "zero_grad", make_zero_of_module)
    for owner in (getattr(torch.amp, "GradScaler", None), torch.cuda.amp.GradScaler):
        if owner is not None and "step" in vars(owner):
            recorder.patches.wrap(owner, "step", make_scaled)


def _zeroed_by_module(recorder: Recorder, module: Any, to_none: bool) -> None:
    if any(wrapper.looks for wrapper in recorder.wrapping.all):
        for wrapper, names in recorder.wrapping.names_of(module.parameters()):
            if wrapper.looks:
                wrapper.gradients.zeroed(names, to_none)
