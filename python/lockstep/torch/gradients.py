"""The seam to backwards: every gradient of a wrapper, from what is there before to what is reduced.

Public hooks on each parameter (register_hook, register_post_accumulate_grad_hook). Patches:
torch.autograd.backward (when it returns, DDP has published its averages; what it starts from is the
loss) and GradScaler.scale (which makes the loss another number).
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import GradPoint
from lockstep.torch.losses import SCALED_BY, write_loss
from lockstep.torch.recorder import BACKWARD, FORWARD
from lockstep.torch.shared_parameters import is_of_another, take_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper

SEAM = "gradients"
RUNS_FIRST = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")  # Whether hooks of the program's can come after ours.


class Gradients:
    """The gradients of one wrapper, between two steps."""

    def __init__(self, wrapper: Wrapper) -> None:
        self.wrapper = wrapper
        self.recorder = wrapper.recorder
        n = len(wrapper.trained)
        self._based = [False] * n  # There was a gradient before this backward.
        self._held = [False] * n  # There is one, as far as was seen.
        self._cleared: list[int] = []  # Gone without a word since.
        self._touched = False  # A backward has added to them.
        self._handles: list[Any] = []

    # -- whether they are watched

    def watch(self) -> None:
        self._held = [parameter.grad is not None for _, parameter in self.wrapper.trained]
        if not self._handles:
            for index, (_, parameter) in enumerate(self.wrapper.trained):
                self._handles += _watch(self, index, parameter)

    def unwatch(self) -> None:
        """Of several wrappers all are watched: a backward does not say which of them it reached. A
        PyTorch without hooks of its own after an accumulation keeps the first ones: later ones would
        come after DDP's."""
        if not self._handles:
            return
        alone = sum(not wrapper.gone for wrapper in self.recorder.wrapping.all) == 1
        if alone and RUNS_FIRST:
            self.remove()

    def remove(self) -> None:
        for handle in self._handles:
            if hasattr(handle, "remove"):
                handle.remove()
        self._handles.clear()
        if self.recorder.scope != BACKWARD:  # One that runs now may be asking them.
            for _, parameter in self.wrapper.trained:
                _drop_empty_table(parameter)

    # -- while a backward runs

    def incoming(self, index: int, parameter: torch.Tensor, grad: torch.Tensor) -> None:
        """A contribution is about to be added to the parameter's gradient."""
        pen = self.recorder.pen
        if pen is None or not self.wrapper.looks or is_of_another(self.wrapper, parameter):
            return
        if parameter.grad is None:
            self._based[index] = False
            if self._held[index]:
                self._cleared.append(index)
            return
        self._based[index] = True
        pen.note(self.wrapper.index, GradPoint.BASE, index, parameter.grad)
        pen.note(self.wrapper.index, GradPoint.INC, index, grad)

    def accumulated(self, index: int, parameter: torch.Tensor) -> None:
        """The contribution has been added, and the reducer has not seen it yet."""
        pen = self.recorder.pen
        self._held[index] = True
        if is_of_another(self.wrapper, parameter):
            return
        self._touched = True
        if pen is None or not self.wrapper.looks:
            return
        if self.wrapper.is_inside():  # No reducer will see it.
            if not self._based[index]:
                pen.note(self.wrapper.index, GradPoint.INC, index, parameter.grad)
            return
        pen.note(self.wrapper.index, GradPoint.PRE, index, parameter.grad)
        if not self._based[index]:
            pen.note_same(self.wrapper.index, GradPoint.INC, GradPoint.PRE, index)

    def after_backward(self) -> None:
        wrapper, pen = self.wrapper, self.recorder.pen
        if pen is None:
            return
        touched = self._touched if self._handles else wrapper.reduces and self.recorder.reduced
        if not touched:
            return
        self._touched = False
        if wrapper.is_inside():
            return self._inside_forward()
        # A forward arms its reducer for one backward: the next one through the same graph adds on each rank.
        reduces = wrapper.is_armed()
        wrapper.awaits = wrapper.awaits and not wrapper.reduces
        reduced = reduces and not wrapper.delayed
        wrapper.averaged = reduces
        if not wrapper.looks:
            return pen.backward(wrapper.index, reduced)
        self.recorder.batches.write_size()
        self._write_cleared()
        for point in (GradPoint.BASE, GradPoint.INC, GradPoint.PRE):
            pen.write_noted(wrapper.index, point)
        if reduced:
            self.write_reduced()
        pen.backward(wrapper.index, reduced)

    def _inside_forward(self) -> None:
        """The reducer is armed when the forward ends: whatever this backward has left is the program's
        to reduce. Its event comes first, to say so of what follows."""
        wrapper, pen = self.wrapper, self.recorder.pen
        if pen is None:
            return
        pen.backward(wrapper.index, False)
        wrapper.averaged = False
        if wrapper.looks:
            self._write_cleared()
            for point in (GradPoint.BASE, GradPoint.INC):
                pen.write_noted(wrapper.index, point)

    def write_reduced(self) -> None:
        """The averages have been published."""
        wrapper, pen = self.wrapper, self.recorder.pen
        take_over(self.recorder.wrapping, wrapper)
        if pen is not None and wrapper.looks:
            names = [name for name, _ in wrapper.trained]
            pen.grads(wrapper.index, GradPoint.POST, wrapper.layout(names),
                      [p.grad for _, p in wrapper.trained])

    def _write_cleared(self) -> None:
        """Gradients that are gone were forgotten in a way that no seam shows, such as p.grad = None."""
        if self._cleared:
            names = [self.wrapper.trained[index][0] for index in self._cleared]
            self._cleared.clear()
            self.write_zero(names, True)

    # -- between backwards

    def zeroed(self, names: Iterable[str], to_none: bool) -> None:
        """Gradients of these parameters, by name, were forgotten or filled with zeros."""
        given = set(names)
        mine = [index for index, (name, _) in enumerate(self.wrapper.trained) if name in given]
        if to_none:
            for index in mine:
                self._held[index] = False
        self.write_zero([self.wrapper.trained[index][0] for index in mine], to_none)

    def write_zero(self, names: list[str], to_none: bool) -> None:
        if names and self.recorder.pen is not None:
            self.recorder.pen.zero_grad(self.wrapper.index, to_none, self.wrapper.layout(names))


def _drop_empty_table(parameter: torch.nn.Parameter) -> None:
    """Hooks that are removed leave a table of none on the parameter: each backward would take the
    interpreter's lock and wrap the gradient to ask it."""
    if parameter._backward_hooks is not None and not parameter._backward_hooks:
        parameter._backward_hooks = None


def _watch(gradients: Gradients, index: int, parameter: torch.nn.Parameter) -> list[Any]:
    """Installs the hooks of one parameter. Returns: their handles."""
    recorder = gradients.recorder
    place = weakref.ref(parameter)

    def incoming(grad: torch.Tensor) -> None:
        try:
            owner = place()
            if owner is not None:
                gradients.incoming(index, owner, grad)
        except Exception as error:
            recorder.trouble(SEAM, error)

    def accumulated(*_: Any) -> None:
        try:
            owner = place()
            if owner is not None:
                gradients.accumulated(index, owner)
        except Exception as error:
            recorder.trouble(SEAM, error)

    handles = [parameter.register_hook(incoming)]
    if RUNS_FIRST:
        handles.append(parameter.register_post_accumulate_grad_hook(accumulated))
        _put_first(parameter._post_accumulate_grad_hooks, handles[-1].id)
    else:
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        handles += [node.register_hook(accumulated), node]
    return handles


def _put_first(hooks: dict[int, Any], key: int) -> None:
    """The program's hooks may reduce a gradient. Autograd takes them as they were put in, whatever an OrderedDict was moved to."""
    others = [(number, hook) for number, hook in hooks.items() if number != key]
    for number, _ in others:
        del hooks[number]
    hooks.update(others)


def install(recorder: Recorder) -> None:
    depth = 0  # Checkpointing runs a backward inside a backward.

    def make_backward(real: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            scope, left_out = recorder.scope, recorder.left_out
            if left_out.now:
                if recorder.exchanges is None or not recorder.exchanges.busy:
                    recorder.scope = BACKWARD
                    try:
                        result = real(*args, **kwargs)
                    finally:
                        recorder.scope = scope
                    left_out.backward_over()
                    return result
                recorder.quietly(SEAM, left_out.end)
            if depth == 0 and scope != FORWARD:
                roots = args[0] if args else kwargs.get("tensors", ())
                seeds = args[1] if len(args) > 1 else kwargs.get("grad_tensors")
                try:
                    write_loss(recorder, roots, seeds is not None)
                except Exception as error:
                    recorder.trouble(SEAM, error)
            if depth == 0:
                recorder.groups.awaited.clear()  # Of one that raised.
            exchanges = recorder.exchanges if depth == 0 else None
            watched = exchanges if exchanges is not None and exchanges.open else None
            if watched is not None:
                begin = watched.begin_backward
                roots = args[0] if args else kwargs.get("tensors", ())
                recorder.quietly(SEAM, lambda: begin(roots))
            depth += 1
            recorder.scope = BACKWARD
            try:
                result = real(*args, **kwargs)
            finally:
                depth -= 1
                recorder.scope = scope
                if watched is not None:
                    recorder.quietly(SEAM, watched.end_backward)
            if depth == 0:
                try:
                    after_backward()
                except Exception as error:
                    recorder.trouble(SEAM, error)
            return result
        return backward

    def after_backward() -> None:
        recorder.groups.after_backward()
        if recorder.in_flight is not None:
            recorder.in_flight.after_backward()
        for wrapper in recorder.wrapping.all:
            wrapper.gradients.after_backward()
        recorder.reduced = False
        if recorder.sharded is not None:
            recorder.sharded.after_backward()
        if recorder.averaging is not None:
            recorder.averaging.n_backwards += 1
        if recorder.scope != FORWARD:
            recorder.annotations.batch_given = False

    def make_scale(real: Callable[..., Any]) -> Callable[..., Any]:
        def scale(self: Any, outputs: Any) -> Any:
            result = real(self, outputs)
            if torch.is_tensor(result) and result is not outputs:
                recorder.quietly(SEAM, lambda: setattr(result, SCALED_BY, float(self.get_scale())))
            return result
        return scale

    recorder.patches.wrap(torch.autograd, "backward", make_backward)
    for owner in (getattr(torch.amp, "GradScaler", None), torch.cuda.amp.GradScaler):
        if owner is not None and "scale" in vars(owner):
            recorder.patches.wrap(owner, "scale", make_scale)
