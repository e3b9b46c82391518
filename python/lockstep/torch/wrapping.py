"""The seam to DistributedDataParallel: construction, forward, backward and every gradient between.

Class patches: __init__ (hooks must be in place before DDP's own) and forward (which forward went
through the wrapper), and torch.autograd.backward (when it returns, DDP has published its averages).
Public hooks: a forward pre-hook on the inner module, which also sees forwards that bypass the wrapper,
and two hooks on each parameter.
"""
from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel

from lockstep.torch.recorder import Place
from lockstep.words import GradPoint, PhaseKind, StateKind, StatePoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "wrapping"


class Wrapper:
    """One DistributedDataParallel and what is known about it."""

    def __init__(self, recorder: Recorder, index: int, module: torch.nn.Module) -> None:
        self.recorder = recorder
        self.place = Place(index)
        self.module = weakref.ref(module)
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.all = {name: p for name, p in module.named_parameters() if name not in ignored}
        self.trained = [(name, p) for name, p in self.all.items() if p.requires_grad]
        self.buffers = {name: b for name, b in module.named_buffers() if name not in ignored}
        self.ignored = sorted(ignored)
        self.layouts: dict[tuple[str, ...], int] = {}
        self.synchronizes: Callable[[], bool] = lambda: False  # Whether a forward now would.
        self.through = False  # A forward of the wrapper is running.
        self.reduces = False  # The last forward armed a reduction.
        self.training: bool | None = None
        self.armed = False  # The states at a forward have been recorded.
        self.touched = False  # A backward has added to its gradients.
        self.based = [False] * len(self.trained)  # There was a gradient before this backward.

    @property
    def index(self) -> int:
        return self.place.wrapper

    def layout(self, names: list[str]) -> int:
        key = tuple(names)
        known = self.layouts.get(key)
        if known is None and self.recorder.pen is not None:
            known = self.layouts[key] = self.recorder.pen.layout(names)
        return known or 0

    def evaluates(self) -> bool:
        """The module is in evaluation mode now."""
        module = self.module()
        return module is not None and not module.training

    def forget(self) -> None:
        """The wrapper is gone: keep nothing of it alive."""
        self.all, self.buffers = {}, {}
        self.trained = []

    # -- while a backward runs

    def incoming(self, index: int, parameter: torch.Tensor, grad: torch.Tensor) -> None:
        """A contribution is about to be added to the parameter's gradient."""
        pen = self.recorder.pen
        if pen is None or parameter.grad is None:
            self.based[index] = False
            return
        self.based[index] = True
        pen.note(self.index, GradPoint.BASE, index, parameter.grad)
        pen.note(self.index, GradPoint.INC, index, grad)

    def accumulated(self, index: int, parameter: torch.Tensor) -> None:
        """The contribution has been added, and the reducer has not seen it yet."""
        pen = self.recorder.pen
        if pen is None:
            return
        self.touched = True
        pen.note(self.index, GradPoint.PRE, index, parameter.grad)
        if not self.based[index]:
            pen.note_same(self.index, GradPoint.INC, GradPoint.PRE, index)

    def after_backward(self) -> None:
        pen = self.recorder.pen
        if pen is None or not self.touched:
            return
        self.touched = False
        for point in (GradPoint.BASE, GradPoint.INC, GradPoint.PRE):
            pen.write_noted(self.index, point)
        if self.reduces:
            names = [name for name, _ in self.trained]
            pen.grads(self.index, GradPoint.POST, self.layout(names), [p.grad for _, p in self.trained])
        pen.backward(self.index, self.reduces)

    # -- forwards and states

    def entering(self, module: torch.nn.Module) -> None:
        """The inner module's forward begins."""
        recorder, place, pen = self.recorder, self.place, self.recorder.pen
        if pen is None:
            return
        recorder.current = place
        grad = torch.is_grad_enabled()
        syncs = self.through and grad and self.synchronizes()
        place.sync += syncs
        place.micro += grad
        recorder.moved(place)
        if module.training is not self.training:
            self._change_phase(module.training)
        if syncs and not self.armed:
            self.armed = True
            self.write_states(StateKind.PARAM, StatePoint.FORWARD, self.all)
        if module.training:
            self.write_states(StateKind.BUFFER, StatePoint.FORWARD, self.buffers)
        pen.forward(self.index, self.through, syncs, module.training, grad)
        if grad:
            self.reduces = syncs
        recorder.consumed(self.index, grad and module.training)

    def _change_phase(self, training: bool) -> None:
        pen = self.recorder.pen
        if pen is None:
            return
        was_training, self.training = self.training, training
        if was_training is not None or not training:
            pen.phase(self.index, PhaseKind.TRAIN if training else PhaseKind.EVAL)
        if not training:
            self.write_states(StateKind.PARAM, StatePoint.EVAL, self.all)
            self.write_states(StateKind.BUFFER, StatePoint.EVAL, self.buffers)

    def write_states(self, kind: StateKind, point: StatePoint, named: dict[str, Any]) -> None:
        if named and self.recorder.pen is not None:
            self.recorder.pen.states(self.index, kind, point, self.layout(list(named)),
                                     list(named.values()))

    def write_end(self) -> None:
        self.write_states(StateKind.PARAM, StatePoint.END, self.all)
        self.write_states(StateKind.BUFFER, StatePoint.END, self.buffers)


class _Entry:
    """The pre-hook on the inner module. A copy or a pickle of the module takes none along."""

    def __init__(self, wrapper: Wrapper | None) -> None:
        self._wrapper = wrapper

    def __call__(self, module: torch.nn.Module, _inputs: Any) -> None:
        wrapper = self._wrapper
        if wrapper is None:
            return
        try:
            wrapper.entering(module)
        except Exception as error:
            wrapper.recorder.trouble(SEAM, error)

    def __deepcopy__(self, _memo: Any) -> _Entry:
        return _Entry(None)

    def __reduce__(self) -> Any:
        # What is loaded where there is no Lockstep: a call that gives the inputs back unchanged.
        return getattr, ({}, "get")


def _watch_gradient(wrapper: Wrapper, index: int, parameter: torch.nn.Parameter) -> list[Any]:
    """Installs the hooks of one parameter. Returns: their handles."""
    recorder = wrapper.recorder
    place = weakref.ref(parameter)

    def incoming(grad: torch.Tensor) -> None:
        try:
            owner = place()
            if owner is not None:
                wrapper.incoming(index, owner, grad)
        except Exception as error:
            recorder.trouble(SEAM, error)

    def accumulated(*_: Any) -> None:
        try:
            owner = place()
            if owner is not None:
                wrapper.accumulated(index, owner)
        except Exception as error:
            recorder.trouble(SEAM, error)

    handles = [parameter.register_hook(incoming)]
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        handles.append(parameter.register_post_accumulate_grad_hook(accumulated))
    else:
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        handles += [node.register_hook(accumulated), node]
    return handles


class Wrapping:
    """All wrappers of this rank."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.all: list[Wrapper] = []
        self.of: weakref.WeakKeyDictionary[Any, Wrapper] = weakref.WeakKeyDictionary()

    def begin(self, module: torch.nn.Module) -> Wrapper:
        """Before DDP's constructor."""
        recorder = self.recorder
        wrapper = Wrapper(recorder, len(self.all), module)
        self.all.append(wrapper)
        recorder.current, recorder.scope = wrapper.place, "ddp.init"
        recorder.moved(wrapper.place)
        if recorder.pen is not None and wrapper.index == 0:
            recorder.pen.environment(recorder.world, int(os.environ.get("LOCAL_RANK", -1)),
                                     os.environ.get("GROUP_RANK", ""), _device_of(module),
                                     _schema_of(wrapper))
        for index, (_, parameter) in enumerate(wrapper.trained):
            for handle in _watch_gradient(wrapper, index, parameter):
                if hasattr(handle, "remove"):
                    recorder.patches.on_undo(handle.remove)
        return wrapper

    def finish(self, ddp: Any, wrapper: Wrapper | None) -> None:
        """After DDP's constructor."""
        if wrapper is None:
            return
        recorder = self.recorder
        recorder.scope = ""
        self.of[ddp] = wrapper
        weakref.finalize(ddp, wrapper.forget)
        weak = weakref.ref(ddp)
        wrapper.synchronizes = lambda: bool(getattr(weak(), "require_backward_grad_sync", True))
        group = ddp.process_group
        number = recorder.groups.numbers.get(getattr(group, "group_name", ""), 0)
        if recorder.pen is None:
            return
        recorder.pen.wrap(
            wrapper.index, wrapper.layout([name for name, _ in wrapper.trained]),
            wrapper.layout([name for name, p in wrapper.all.items() if not p.requires_grad]),
            wrapper.layout(list(wrapper.buffers)), wrapper.layout(wrapper.ignored),
            "broadcast0" if ddp.broadcast_buffers else "local",
            int(getattr(ddp, "bucket_bytes_cap", 0)), number, group.size())
        recorder.pen.log(_options_of(ddp))
        wrapper.write_states(StateKind.PARAM, StatePoint.WRAP, wrapper.all)
        wrapper.write_states(StateKind.BUFFER, StatePoint.WRAP, wrapper.buffers)
        handle = ddp.module.register_forward_pre_hook(_Entry(wrapper))
        recorder.patches.on_undo(handle.remove)

    def write_end(self) -> None:
        for wrapper in self.all:
            wrapper.write_end()


def _device_of(module: torch.nn.Module) -> str:
    for parameter in module.parameters():
        return "" if parameter.device.type == "cpu" else str(parameter.device)
    return ""


def _schema_of(wrapper: Wrapper) -> str:
    rows = [f"{name} {tuple(p.shape)} {p.dtype} {p.requires_grad}" for name, p in wrapper.all.items()]
    rows += [f"{name} {tuple(b.shape)} {b.dtype} buffer" for name, b in wrapper.buffers.items()]
    return "\n".join([*rows, *wrapper.ignored])


def _options_of(ddp: Any) -> str:
    names = ("broadcast_buffers", "find_unused_parameters", "static_graph", "gradient_as_bucket_view",
             "bucket_bytes_cap")
    return "ddp options: " + ", ".join(f"{name}={getattr(ddp, name, None)}" for name in names)


def install(recorder: Recorder) -> None:
    wrapping = Wrapping(recorder)
    recorder.wrapping = wrapping
    recorder.before_end.append(wrapping.write_end)

    def make_init(real: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            wrapper = recorder.quietly(SEAM, lambda: wrapping.begin(module))
            real(self, module, *args, **kwargs)
            recorder.quietly(SEAM, lambda: wrapping.finish(self, wrapper))
        return __init__

    def make_forward(real: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            wrapper = wrapping.of.get(self)
            if wrapper is None:
                return real(self, *args, **kwargs)
            wrapper.through, recorder.scope = True, "ddp.forward"
            recorder.current = wrapper.place
            try:
                return real(self, *args, **kwargs)
            finally:
                wrapper.through, recorder.scope = False, ""
        return forward

    depth = 0  # Checkpointing runs a backward inside a backward.

    def make_backward(real: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            recorder.scope = "ddp.backward"
            try:
                result = real(*args, **kwargs)
            finally:
                depth -= 1
                if depth == 0:
                    recorder.scope = ""
            if depth == 0:
                recorder.quietly(SEAM, _after_backward)
            return result
        return backward

    def _after_backward() -> None:
        recorder.poll()
        for wrapper in wrapping.all:
            wrapper.after_backward()

    recorder.patches.wrap(DistributedDataParallel, "__init__", make_init)
    recorder.patches.wrap(DistributedDataParallel, "forward", make_forward)
    recorder.patches.wrap(torch.autograd, "backward", make_backward)
