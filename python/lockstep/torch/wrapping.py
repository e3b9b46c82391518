"""The seam to DistributedDataParallel: construction, buckets, communication hooks and forwards.

Class patches: __init__ (hooks on gradients must be in place before DDP's own), forward (which forward
went through the wrapper), register_comm_hook and its built-in twin. Public hook: a forward pre-hook on
the inner module, which also sees forwards that bypass the wrapper. The plan of buckets is what
torch.distributed._compute_bucket_assignment_by_size returned while the wrapper was made.
"""
from __future__ import annotations

import functools
import os
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel

from lockstep.enums import HookEffect, LogKind, LonePoint, PhaseKind, StateKind, StatePoint
from lockstep.torch.autocast import word_for
from lockstep.torch.budget import Look
from lockstep.torch.buffers import Buffers
from lockstep.torch.comm_hooks import effect_of, lets_train_alone
from lockstep.torch.frozen_modules import write_drawn
from lockstep.torch.gradients import Gradients
from lockstep.torch.input_rows import InputRows
from lockstep.torch.model_description import descriptions
from lockstep.torch.module_forwards import SEAM, Entry
from lockstep.torch.recorder import FORWARD, INIT, Place
from lockstep.torch.replaced_buffers import ReplacedBuffers
from lockstep.torch.shared_parameters import look_for_sharing
from lockstep.torch.wrapped_again import remark_on, take_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockstep.torch.recorder import Recorder



class Wrapper:
    """One DistributedDataParallel and what is known about it."""

    def __init__(self, recorder: Recorder, index: int, module: torch.nn.Module) -> None:
        self.recorder = recorder
        self.place = Place(index)
        self.module = weakref.ref(module)
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.all = {name: p for name, p in module.named_parameters() if name not in ignored}
        self.trained = [(name, p) for name, p in self.all.items() if p.requires_grad]
        self.frozen = {name: p for name, p in self.all.items() if not p.requires_grad}
        self._buffers = Buffers(module, ignored, recorder.registrations)
        self.ignored = sorted(ignored)
        self.shared: dict[int, list[Wrapper]] = {}  # By parameter: wrappers that reduce it, too.
        self.left_out: dict[int, str] = {}  # Trained parameters that it is not to keep equal, by id.
        self.layouts: dict[tuple[str, ...], int] = {}
        self.synchronizes: Callable[[], bool] = lambda: False  # Whether a forward now would.
        self.through = False  # A forward of the wrapper is running ...
        self.prepared = False  # ... and has made its reducer expect a backward.
        self.reduces = False  # The last forward armed a reduction.
        self.averaged = True  # No backward has added to gradients since the last reduction.
        self.hooked = False  # A communication hook does something else than averaging.
        self.part = False  # Its hook lets ranks train alone: no budget may miss where they are brought together.
        self.alone = False  # A step was taken without the other ranks, and nothing has looked at what it left since.
        self.parted = False  # Such a step was taken before: ranks may have trained apart ever since.
        self.delayed = False  # The first one comes after the backward (delayed_reduction.py).
        self.training: bool | None = None
        self.announced = True  # The phase that was written last; a first training needs no word.
        self.awaits = False  # No backward has followed the last synchronising forward.
        self.armed = False  # The states at a forward have been recorded.
        self._entry: Any = None  # The hook on the module inside.
        self.gone = False
        self.looks = True  # This window is looked at.
        self.group = 0  # The number of its group, 0 = the world.
        self.began = 0  # The synchronising forward that this window began with.
        self.inputs = recorder.input_rows[index] = InputRows(recorder, index)
        self.gradients = Gradients(self)
        self.replaced = ReplacedBuffers(self)

    @property
    def index(self) -> int:
        return self.place.wrapper

    def layout(self, names: list[str]) -> int:
        key = tuple(names)
        known = self.layouts.get(key)
        if known is None and self.recorder.pen is not None:
            known = self.layouts[key] = self.recorder.pen.layout(names)
        return known or 0

    @property
    def buffers(self) -> dict[str, Any]:
        return self._buffers.now()

    @property
    def sees_entry(self) -> bool:
        """The forward of the module inside is seen as well."""
        return self._entry is not None

    def evaluates(self) -> bool:
        """The module is in evaluation mode now."""
        module = self.module()
        return module is not None and not module.training

    def is_armed(self) -> bool:
        """The next backward through it is reduced."""
        return self.reduces and self.awaits

    def is_inside(self) -> bool:
        """A backward that runs now lies inside a forward, and the reducer takes no part in it."""
        return self.through and not self.prepared

    def step_over(self) -> None:
        """An optimizer has stepped: the next window begins."""
        looking, left_out, begins = self.recorder.looking, self.recorder.left_out, self.place.sync + 1
        if left_out.now and begins < looking.quiet_until and not left_out.overdue:
            self.began = begins
            return
        if self.index == 0:
            looking.over(Look.WHOLE if self.looks else Look.COUNT if left_out.now else Look.EVENTS)
        look = Look.WHOLE if self.part else looking.wants(self.began, begins)
        self.began = begins
        if left_out.now:
            if look is Look.COUNT and not left_out.overdue:
                return
            left_out.end()
        looks = look is Look.WHOLE
        if looks:
            self.gradients.watch()
            self.watch_entry()
        else:
            self.gradients.unwatch()
            self.unwatch_entry()
        self.looks = looks
        if look is Look.COUNT:
            left_out.begin(self)

    def may_be_left_out(self) -> bool:
        """Whether nothing but counts is left to say of its windows, as long as they are alike."""
        return self.training is True and self.armed and not (self.delayed or self.awaits or self.alone)

    def watch_entry(self) -> None:
        """Sees forwards of the module inside, which may have gone past the wrapper."""
        module = self.module()
        if self._entry is None and module is not None:
            self._entry = module.register_forward_pre_hook(Entry(self))

    def unwatch_entry(self) -> None:
        """A module with a hook is called in a slower way: the wrapper's own forward is seen anyway."""
        if self._entry is not None:
            self._entry.remove()
            self._entry = None

    def forwards(self) -> None:
        """A forward of the wrapper begins, which no hook inside will tell of."""
        module = self.module()
        if module is not None and not module.training:
            self._announce(False)  # Before what the wrapper sends: it waits forever where one rank evaluates alone.
        if self._entry is not None or module is None:
            return
        if module.training is self.training:
            self.entering(module)
        else:
            self.watch_entry()  # What an evaluation uses is there once buffers have been broadcast.

    def forget(self) -> None:
        """The wrapper is gone: keep nothing of it alive."""
        self.gone = True
        self.recorder.quietly(SEAM, self.write_end)
        self.unwatch_entry()
        self.gradients.remove()
        self.all, self.frozen = {}, {}
        self._buffers.forget()
        self.trained = []

    # -- forwards and states

    def entering(self, module: torch.nn.Module) -> None:
        """The inner module's forward begins."""
        recorder, place, pen = self.recorder, self.place, self.recorder.pen
        if pen is None:
            return
        recorder.current = place
        self.write_found_alone()
        grad = torch.is_grad_enabled()
        trains = grad and module.training
        if trains:
            recorder.trainings.trained_on(self)
        recorder.batches.begin_pass(trains)
        syncs = self.through and grad and self.synchronizes()
        # One without its backward reduces nothing: the next one meets the other ranks' reduction.
        place.ahead = False
        place.sync += syncs and not self.awaits
        self.awaits = self.awaits or syncs
        place.micro += grad
        recorder.moved(place)
        self.replaced.write()
        if module.training is not self.training:
            self._change_phase(module.training)
        if syncs and not self.armed:
            self.armed = True
            self.write_states(StateKind.PARAM, StatePoint.FORWARD, self.all)
        elif syncs and self.looks and self.all:
            pen.found(self.index, self.layout(list(self.all)), list(self.all.values()))
        if module.training and self.looks:
            self.write_states(StateKind.BUFFER, StatePoint.FORWARD, self.buffers)
        pen.forward(self.index, self.through, syncs, module.training, grad, word_for(self.all))
        self.inputs.write(recorder.batches.inputs, trains)
        if grad:
            self.reduces = syncs
        recorder.batches.consumed(self, trains)

    def _announce(self, training: bool) -> None:
        if self.recorder.pen is not None and training is not self.announced:
            self.recorder.pen.phase(self.index, PhaseKind.TRAIN if training else PhaseKind.EVAL)
            self.announced = training

    def _change_phase(self, training: bool) -> None:
        self._announce(training)
        self.training = training
        if not training:
            self.write_states(StateKind.PARAM, StatePoint.EVAL, self.all)
            self.write_states(StateKind.BUFFER, StatePoint.EVAL, self.buffers)
            self.recorder.annotations.write_replicated(self.index, StatePoint.EVAL)

    def write_states(self, kind: StateKind, point: StatePoint, named: dict[str, Any]) -> None:
        if named and self.recorder.pen is not None:
            self.recorder.pen.states(self.index, kind, point, self.layout(list(named)),
                                     list(named.values()))

    def write_stepped_alone(self) -> None:
        """A step is over: a program that averages parameters in place of gradients does so before it goes on."""
        if self.looks and (self.hooked or not self.averaged):
            self.alone = self.parted = True
            self._write_alone(LonePoint.STEPPED)

    def write_found_alone(self) -> None:
        if self.alone:
            self.alone = False
            self._write_alone(LonePoint.FOUND)

    def _write_alone(self, point: LonePoint) -> None:
        if self.all and self.recorder.pen is not None:
            self.recorder.pen.lone(self.index, point, self.layout(list(self.all)), list(self.all.values()))

    def write_end(self) -> None:
        self.write_found_alone()
        self.write_states(StateKind.PARAM, StatePoint.END, self.all)
        self.write_states(StateKind.BUFFER, StatePoint.END, self.buffers)


class Wrapping:
    """All wrappers of this rank."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.all: list[Wrapper] = []
        self.of: weakref.WeakKeyDictionary[Any, Wrapper] = weakref.WeakKeyDictionary()
        self.running: tuple[Any, Wrapper | None] = None, None  # Whose forward is running.
        self._plan: list[list[int]] | None = None  # Buckets of the wrapper being made.
        self._inside: list[Wrapper] = []  # Wrappers that its model holds.
        self.version = 0  # Counts the changes of who owns which parameters.
        self._owners: dict[int, tuple[Wrapper, str]] = {}
        self._owners_of = 0
        self.moves = 0  # Of parameters from one wrapper to another.

    def begin(self, module: torch.nn.Module) -> Wrapper:
        """Before DDP's constructor."""
        recorder = self.recorder
        self._inside = take_inside(self.of, module)
        wrapper = Wrapper(recorder, len(self.all), module)
        self.add(wrapper)
        recorder.trainings.made(wrapper)
        recorder.current, recorder.scope = wrapper.place, INIT
        recorder.moved(wrapper.place)
        if recorder.pen is not None and wrapper.index == 0:
            recorder.pen.environment(recorder.world, int(os.environ.get("LOCAL_RANK", -1)),
                                     os.environ.get("GROUP_RANK", ""), _device_of(module),
                                     _schema_of(wrapper))
        wrapper.gradients.watch()
        recorder.patches.on_undo(wrapper.gradients.remove)
        self._plan = None
        if wrapper.index == 0:
            recorder.quietly(SEAM, lambda: write_drawn(recorder, wrapper))
        return wrapper

    def add(self, wrapper: Wrapper) -> None:
        self.all.append(wrapper)
        self.version += 1

    def prepared(self, reducer: Any) -> None:
        """A reducer expects a backward from now on: DDP says so as its forward ends, frameworks that run
        the backward inside a forward say so themselves."""
        ddp, wrapper = self.running
        if wrapper is not None and ddp.reducer is reducer:
            wrapper.prepared = True

    def planned(self, buckets: list[list[int]]) -> None:
        """DDP has divided its parameters, in reverse order of their buckets."""
        self._plan = buckets[::-1]

    def owners(self) -> dict[int, tuple[Wrapper, str]]:
        """Wrapper and name of each parameter, by its id. Made again after a wrapper has been added."""
        if self._owners_of != self.version:
            self._owners_of = self.version
            self._owners = {id(p): (wrapper, name) for wrapper in self.all
                            for name, p in wrapper.all.items()}
        return self._owners

    def since_wrapping(self) -> dict[int, tuple[Wrapper, str]]:
        """Wrapper and name of each parameter that a model has got since it was wrapped, by its id. DDP does
        not know of them."""
        owners = self.owners()
        return {id(p): (wrapper, name + " (new)") for ddp, wrapper in self.of.items()
                for name, p in ddp.module.named_parameters()
                if id(p) not in owners and name not in wrapper.ignored}

    def ignored(self) -> set[int]:
        """The ids of parameters that wrappers leave alone because their programs say so."""
        return {id(p) for ddp, wrapper in self.of.items() if wrapper.ignored
                for name, p in ddp.module.named_parameters() if name in wrapper.ignored}

    def names_of(self, parameters: Iterable[Any]) -> list[tuple[Wrapper, list[str]]]:
        """The names of these parameters, by wrapper."""
        owners = self.owners()
        found: dict[int, tuple[Wrapper, list[str]]] = {}
        for parameter in parameters:
            if id(parameter) in owners:
                wrapper, name = owners[id(parameter)]
                found.setdefault(wrapper.index, (wrapper, []))[1].append(name)
        return list(found.values())

    def finish(self, ddp: Any, wrapper: Wrapper | None) -> None:
        """After DDP's constructor."""
        if wrapper is None:
            return
        recorder = self.recorder
        recorder.scope = ""
        self.of[ddp] = wrapper
        wrapper.delayed = bool(getattr(ddp, "static_graph", False))
        weakref.finalize(ddp, wrapper.forget)
        weak = weakref.ref(ddp)
        wrapper.synchronizes = lambda: bool(getattr(weak(), "require_backward_grad_sync", True))
        group = ddp.process_group
        wrapper.group = recorder.groups.numbers.get(getattr(group, "group_name", ""), 0)
        if recorder.pen is None:
            return
        recorder.pen.wrap(
            wrapper.index, wrapper.layout([name for name, _ in wrapper.trained]),
            wrapper.layout([name for name, p in wrapper.all.items() if not p.requires_grad]),
            wrapper.layout(list(wrapper.buffers)), wrapper.layout(wrapper.ignored),
            "broadcast0" if ddp.broadcast_buffers else "local",
            int(getattr(ddp, "bucket_bytes_cap", 0)), wrapper.group, group.size(), True)
        if wrapper.group == 0:
            recorder.pen.configuration(wrapper.index, "model", _schema_of(wrapper), descriptions(ddp.module))
        if self._plan:
            recorder.pen.bucket(wrapper.index, [i for bucket in self._plan for i in bucket],
                                [len(bucket) for bucket in self._plan])
        recorder.pen.log(LogKind.NONE, _options_of(ddp))
        remark_on(recorder, self._inside, wrapper)
        wrapper.write_states(StateKind.PARAM, StatePoint.WRAP, wrapper.all)
        wrapper.write_states(StateKind.BUFFER, StatePoint.WRAP, wrapper.buffers)
        wrapper.watch_entry()
        recorder.patches.on_undo(wrapper.unwatch_entry)
        look_for_sharing(self, wrapper)

    def hooked(self, ddp: Any, hook: Any) -> None:
        """A communication hook takes the place of the reduction."""
        wrapper = self.of.get(ddp)
        if wrapper is not None and self.recorder.pen is not None:
            effect = effect_of(hook)
            wrapper.hooked = effect is HookEffect.OTHER
            wrapper.part = lets_train_alone(hook)
            self.recorder.pen.comm_hook(wrapper.index, effect)

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
    recorder.registrations.install(recorder)
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
            if recorder.left_out.now and passes_by(self, wrapper):
                recorder.scope = FORWARD
                try:
                    return real(self, *args, **kwargs)
                finally:
                    recorder.scope = ""
            wrapper.through, wrapper.prepared, recorder.scope = True, False, FORWARD
            recorder.current = wrapper.place
            outer, wrapping.running = wrapping.running, (self, wrapper)
            entered = None
            recorder.batches.inputs = args, kwargs
            try:
                entered = recorder.streams.entering(wrapper)
                wrapper.forwards()
                wrapper.replaced.look(self)
            except Exception as error:
                recorder.trouble(SEAM, error)
            try:
                result = real(self, *args, **kwargs)
            finally:
                wrapper.through, wrapping.running, recorder.scope = False, outer, ""
                recorder.batches.inputs = None
            if entered is not None:
                recorder.quietly(SEAM, functools.partial(recorder.streams.left, wrapper, entered))
            return result
        return forward

    def passes_by(ddp: Any, wrapper: Wrapper) -> bool:
        try:
            return recorder.left_out.forwards(ddp, wrapper)
        except Exception as error:
            recorder.trouble(SEAM, error)
            return False

    def make_prepare(real: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_for_backward(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                wrapping.prepared(self)
            except Exception as error:
                recorder.trouble(SEAM, error)
            return real(self, *args, **kwargs)
        return prepare_for_backward

    def make_plan(real: Callable[..., Any]) -> Callable[..., Any]:
        def _compute_bucket_assignment_by_size(*args: Any, **kwargs: Any) -> Any:
            result = real(*args, **kwargs)
            recorder.quietly(SEAM, lambda: wrapping.planned(
                result[0] if isinstance(result, tuple) else result))
            return result
        return _compute_bucket_assignment_by_size

    def make_register(real: Callable[..., Any]) -> Callable[..., Any]:
        def register(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(self, *args, **kwargs)
            recorder.quietly(SEAM, lambda: wrapping.hooked(self, [*args, *kwargs.values()][-1]))
            return result
        return register

    recorder.patches.wrap(torch.distributed, "_compute_bucket_assignment_by_size", make_plan)
    prepares = recorder.patches.switch(torch.distributed.Reducer, "prepare_for_backward", make_prepare)
    if prepares is not None:
        recorder.left_out.switches.append(prepares)
    for name in ("register_comm_hook", "_register_builtin_comm_hook"):
        recorder.patches.wrap(DistributedDataParallel, name, make_register)
    recorder.patches.wrap(DistributedDataParallel, "__init__", make_init)
    recorder.patches.wrap(DistributedDataParallel, "forward", make_forward)
