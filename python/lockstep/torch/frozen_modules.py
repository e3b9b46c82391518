"""The seam to modules beside the wrapped model that nothing trains, such as random projections that make targets.

No patch: after the first step of a wrapper over all ranks, modules of no wrapper without a parameter to train get a forward
pre-hook. What they hold is written at some of their uses in training: a law compares it where it stays as it is, and so not
of several modules of one class. Ranks that load such a module from a file may each have their own.

Nor does the wrapper broadcast tensors that a module of the wrapped model has as plain attributes, neither parameters nor
buffers. What they hold is written after some of its steps.
"""
from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.loss import _Loss
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from lockstep.enums import DataPart
from lockstep.torch.module_hooks import ModuleHook

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper

SEAM = "frozen modules"
FEWEST = 16  # Elements that two ranks do not draw alike by chance.
MOST_ELEMENTS = 1 << 24
LAST_USE = 64
_EXACT = (torch.nn.Parameter, torch.Tensor)


class _Use(ModuleHook):
    """Writes what a module holds at its uses 1, 2, 4, ... in training."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name
        self._n = 0

    def __call__(self, module: torch.nn.Module, _inputs: Any) -> None:
        recorder = self._recorder
        if recorder.pen is None or recorder.left_out.now or self._n >= LAST_USE:
            return
        if any(not wrapper.gone and not wrapper.evaluates() for wrapper in recorder.wrapping.all):
            self._n += 1
            if not self._n & (self._n - 1):
                recorder.quietly(SEAM, lambda: self._write(module))

    def _write(self, module: torch.nn.Module) -> None:
        if self._recorder.pen is not None:
            self._recorder.pen.data(-1, DataPart.FROZEN, "", self._name, _held(module))


def write_drawn(recorder: Recorder, wrapper: Wrapper) -> None:
    """What the model held before its wrapper broadcast it: its first parameter of some size."""
    for _, parameter in wrapper.trained:
        if recorder.pen is not None and type(parameter) is torch.nn.Parameter and parameter.numel() >= FEWEST:
            recorder.pen.data(-1, DataPart.DRAWN, "", "", [parameter])
            return


def _held(module: torch.nn.Module) -> list[Any]:
    return [*module.parameters(), *(buffer for buffer in module.buffers() if buffer.is_floating_point())]


def _is_frozen(recorder: Recorder, module: torch.nn.Module) -> bool:
    if isinstance(module, (DistributedDataParallel, AveragedModel, _Loss)) or any(p.requires_grad for p in module.parameters()):
        return False
    held = _held(module)
    if any(type(tensor) not in _EXACT or tensor.is_meta for tensor in held):
        return False  # Parts of something, or not there yet.
    return FEWEST <= sum(tensor.numel() for tensor in held) <= MOST_ELEMENTS and \
        not any(part in recorder.loaded for part in module.modules())


def _is_like_wrapped(recorder: Recorder, module: torch.nn.Module) -> bool:
    """As a teacher is: companions.py sees to it."""
    shapes = {name: p.shape for name, p in module.named_parameters()}
    return bool(shapes) and any(shapes == {name: p.shape for name, p in wrapper.all.items()} for wrapper in recorder.wrapping.all)


class _Attributes:
    """The plain tensors of wrapped models, written after steps 1, 2, 4, ... that follow."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._held: list[tuple[weakref.ref[torch.nn.Module], str]] = []
        self._n = 0

    def find(self) -> None:
        for wrapper in self._recorder.wrapping.all:
            for part in _parts_of(wrapper.module()) if wrapper.group == 0 else ():  # Loaded ones, too: no state contains these.
                self._held += [(weakref.ref(part), name) for name, value in vars(part).items() if _is_plain(value)]

    def stepped(self) -> None:
        if not self._held or self._n >= LAST_USE:
            return
        self._n += 1
        if not self._n & (self._n - 1):
            self._recorder.quietly(SEAM, self._write)

    def _write(self) -> None:
        for place, name in self._held:
            module = place()
            value = vars(module).get(name) if module is not None else None
            if self._recorder.pen is not None and _is_plain(value):
                self._recorder.pen.data(-1, DataPart.FROZEN, "", f"{type(module).__name__}.{name}", [value])


def _is_plain(value: Any) -> bool:
    return type(value) is torch.Tensor and value.is_floating_point() and not value.requires_grad and not value.is_meta and \
        value.layout is torch.strided and FEWEST <= value.numel() <= MOST_ELEMENTS


def _watch(recorder: Recorder) -> None:
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    within = {id(part) for wrapper in recorder.wrapping.all for part in _parts_of(wrapper.module())}
    frozen: dict[int, torch.nn.Module] = {}
    for module in modules:
        with suppress(Exception):  # One may be half made, or made in a way of its own.
            parts = {id(part) for part in module.modules()}
            if within.isdisjoint(parts) and _is_frozen(recorder, module) and not _is_like_wrapped(recorder, module):
                frozen[id(module)] = module
    inside = {id(part) for module in frozen.values() for part in module.modules() if part is not module}
    for number, module in frozen.items():
        if number not in inside:
            hook = module.register_forward_pre_hook(_Use(recorder, type(module).__name__))
            recorder.patches.on_undo(hook.remove)


def _parts_of(module: torch.nn.Module | None) -> list[torch.nn.Module]:
    return list(module.modules()) if module is not None else []


def install(recorder: Recorder) -> None:
    from torch.optim import optimizer

    has_looked = False
    attributes = _Attributes(recorder)

    def after(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
        nonlocal has_looked  # A hook must not be removed while hooks run.
        if not has_looked and any(wrapper.place.opt > 0 and wrapper.group == 0 for wrapper in recorder.wrapping.all):
            has_looked = True
            recorder.quietly(SEAM, lambda: _watch(recorder))
            recorder.quietly(SEAM, attributes.find)
        attributes.stepped()

    # Of type checkers' PyTorch, which may be older.
    hook = getattr(optimizer, "register_optimizer_step_post_hook")(after)  # noqa: B009
    recorder.patches.on_undo(hook.remove)
