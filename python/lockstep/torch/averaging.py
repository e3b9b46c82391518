"""The seam to gradients that a program reduces by itself, without a DistributedDataParallel.

No patch of its own: groups.py hands over sums, means and broadcasts over all ranks, and stepping.py's hooks
say what a step used. A program that sends, before its very first step, the gradients of all the parameters that
some module trains has said what its replicas are: from the next step on that module is recorded as a
wrapper that reduces nothing. What has no gradient then may have one on another rank, and belongs to it. If the
program leaves out the smaller part of the gradients, the rest is the wrapper, and those that are left out are
parameters that no wrapper has. The first step itself is not recorded, since nothing watched its backward; how its
parameters were before it is, and the batches of its pass. Before a step that fewer elements were sent for, recording ends: the ranks may train
alone from there on. Sums that only one rank gets count like those that all get, since all may step with what they
have. A program that sends parameters after its step intends that: recording ends before a step is judged.
"""
from __future__ import annotations

import gc
import math
import weakref
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from lockstep.enums import CollectiveOp, PhaseKind, ReduceOp, StateKind, StatePoint
from lockstep.torch.autocast import word_for
from lockstep.torch.gradients import RUNS_FIRST
from lockstep.torch.recorder import BACKWARD
from lockstep.torch.wrapping import Wrapper

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.torch.groups import Call
    from lockstep.torch.recorder import Recorder

SEAM = "averaging"
ROUNDINGS = 1e-4  # Of sixteen bits.
MOST_LOOKS = 8  # For modules, each at twice as many backwards as the one before.
_current_node = getattr(torch._C, "_current_autograd_node", None)  # None outside of every node.


class Averaged(Wrapper):
    """A module whose gradients the program reduces."""

    def __init__(self, recorder: Recorder, index: int, module: torch.nn.Module, left_out: set[int], apart: bool) -> None:
        super().__init__(recorder, index, module)
        self.apart = apart  # Its steps leave the replicas apart: only one rank gets the sums, or they come after a step.
        self.is_replaced = False  # By what the program sends: what it has come to does not matter.
        self.left_out = {id(p): name for name, p in self.trained if id(p) in left_out}
        self.all = {name: p for name, p in self.all.items() if id(p) not in left_out}
        self.trained = [(name, p) for name, p in self.trained if id(p) not in left_out]
        self._buffers.forget()  # Nothing says what they are meant to be.
        self.through = self.prepared = True  # No forward can miss a reduction, no backward lies inside one.
        self.place.sync = 0
        self._follows_data = False
        self._evaluates = False
        self._evaluated: dict[str, torch.Tensor] = {}  # The buffers of an evaluation that is not over: the module may end before it.

    def n_elements(self) -> int:
        """What a step needs that all have sent. Which parameters have gradients may differ from step to step."""
        return sum(p.numel() for _, p in self.trained if p.grad is not None)

    def entering(self, module: torch.nn.Module) -> None:
        recorder, place, pen = self.recorder, self.place, self.recorder.pen
        if pen is None:
            return
        recorder.current = place
        if self._evaluates == module.training:
            self._write_buffers()
            self._evaluates = not module.training
            self._evaluated = self.own_buffers() if self._evaluates else {}
            pen.phase(self.index, PhaseKind.TRAIN if module.training else PhaseKind.EVAL)
        grad = torch.is_grad_enabled()
        trains = grad and module.training
        if self._follows_data:
            if trains:
                recorder.trainings.trained_on(self)
            recorder.batches.begin_pass(trains)
        place.micro += grad
        recorder.moved(place)
        pen.forward(self.index, True, False, module.training, grad, word_for(self.all))
        if self._follows_data:
            recorder.batches.consumed(self, trains)

    def own_buffers(self) -> dict[str, torch.Tensor]:
        """Those that each rank computes from its own batches, such as running statistics."""
        module = self.module()
        named = () if module is None else module.named_buffers()
        return {name: buffer for name, buffer in named if buffer.is_floating_point()}

    def _write_buffers(self) -> None:
        """What an evaluation that is over was made with: nothing brings the ranks' buffers together."""
        self.write_states(StateKind.BUFFER, StatePoint.EVAL, self._evaluated)
        self._evaluated = {}

    def follow_data(self) -> None:
        """Those of the first step, too, whose place is before it."""
        recorder, place = self.recorder, self.place
        recorder.trainings.trained_on(self)
        recorder.current, place.opt = place, place.opt - 1
        recorder.moved(place)
        self._follows_data = recorder.batches.follow(self)
        place.opt += 1
        recorder.moved(place)

    def write_stepped_alone(self) -> None:
        """Its gradients are reduced by the program, between backward and step."""

    def unwatch_entry(self) -> None:
        """No forward of a wrapper is seen in its place: only forget() removes it."""
        if self.gone:
            super().unwatch_entry()

    def write_end(self) -> None:
        self._write_buffers()
        if not self.is_replaced:
            super().write_end()

    def step_over(self) -> None:
        super().step_over()
        self.place.sync += 1  # Each step ends with a reduction.
        self.recorder.moved(self.place)


class Averaging:
    """What is reduced before the first step, and of which module."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.n_backwards = 0
        self._next_look = 1
        self._modules: list[weakref.ref[torch.nn.Module]] = []
        self._by_shape: dict[torch.Size, list[weakref.ref[Any]]] = {}
        self._stepped: dict[int, weakref.ref[Any]] = {}  # Parameters that have been, by id.
        self._reduced: set[int] = set()  # Parameters whose gradients have been sent since the last step.
        self._absent: set[int] = set()  # Those that had none, where something of their shape has been sent.
        self._copied: dict[int, int] = {}  # As a copy, and the digest of what was copied.
        self._averaged: list[Averaged] = []
        self._n_sent = 0  # Elements since the last step.
        self._to_one = False  # Some of them: only one rank gets the sums.
        self._last_step = (-1, frozenset[int]())  # Backwards before it, and what it used.
        self._late: set[int] = set()  # Parameters whose gradients were sent after a step had used them.
        self._starting: Averaged | None = None  # From the end of the step that runs.

    def posted(self, call: Call) -> None:
        """A collective of the program's own. In the middle of a backward hooks send gradients that have been accumulated, or
        the parts of a buffer that are complete. What hooks on a tensor send is not yet a gradient."""
        is_sum = call.reduce in (ReduceOp.SUM, ReduceOp.AVG)
        adds = call.op is CollectiveOp.ALL_REDUCE and is_sum
        to_one = call.op is CollectiveOp.REDUCE and is_sum
        self._look_for_parameters(call)
        if not (adds or to_one or call.op is CollectiveOp.BROADCAST) or call.calls.number != 0:
            return
        if self._averaged:
            self._n_sent += sum(tensor.numel() for tensor in call.inputs if tensor.is_floating_point())
        if not self._may_begin() or (self._is_in_the_middle() and not RUNS_FIRST):
            return
        for tensor in call.inputs:
            if tensor.is_floating_point() and tensor.grad_fn is None:
                self._to_one |= self._find(tensor, adds) and to_one

    def _look_for_parameters(self, call: Call) -> None:
        """What one rank has stepped to becomes what all have: its parameters are sent, or as many bytes in one piece."""
        apart = [wrapper for wrapper in self._averaged if wrapper.apart]
        if not apart:
            return
        places = {tensor.data_ptr() for tensor in (*call.inputs, *call.outputs)}
        copies = call.op in (CollectiveOp.BROADCAST, CollectiveOp.SEND, CollectiveOp.RECV)
        most = max((tensor.nbytes for tensor in call.inputs), default=0) if copies else 0
        for wrapper in apart:
            own = [p for _, p in wrapper.trained]
            if most >= sum(p.nbytes for p in own) or any(p.data_ptr() in places for p in own):
                wrapper.is_replaced = True
                self._end(wrapper)

    def _end(self, wrapper: Averaged) -> None:
        self._averaged.remove(wrapper)
        wrapper.forget()
        self.recorder.wrapping.version += 1

    def _is_in_the_middle(self) -> bool:
        return self.recorder.scope == BACKWARD and (_current_node is None or _current_node() is not None)

    def _n_backwards(self) -> int:
        """With one that runs what was queued for its end."""
        return self.n_backwards + (self.recorder.scope == BACKWARD)

    def _may_begin(self) -> bool:
        return self._n_backwards() > 0 and not self.recorder.wrapping.of and self.recorder.pen is not None

    def _find(self, tensor: torch.Tensor, adds: bool) -> bool:
        """Returns whether it is a gradient itself."""
        if self._n_backwards() >= self._next_look and self._next_look < 1 << MOST_LOOKS:
            self._next_look = 2 * self._n_backwards()
            self._look()
        alike = [p for p in (place() for place in self._by_shape.get(tensor.shape, ())) if p is not None]
        for parameter in alike:
            grad = parameter.grad
            if grad is not None and grad.layout is torch.strided and grad.data_ptr() == tensor.data_ptr():
                self._reduced.add(id(parameter))
                n_backwards, used = self._last_step
                if n_backwards == self._n_backwards() and id(parameter) in used:
                    self._late.add(id(parameter))
                return True
        if not adds:
            return False
        absent = next((id(p) for p in alike if p.grad is None and id(p) not in self._absent), None)
        if absent is not None and not self._is_in_the_middle():
            self._absent.add(absent)
        elif tensor.dim() == 1:
            self._find_copies(tensor)
        return False

    def _find_copies(self, tensor: torch.Tensor) -> None:
        """Whether a buffer is the gradients of a module, one after the other, or the next part of them from either end."""
        pen, owned = self.recorder.pen, self.recorder.wrapping.owners()
        sent = self._reduced | set(self._copied)
        for place in self._modules:
            module = place()
            trained = [] if module is None else [p for p in module.parameters() if p.requires_grad and id(p) not in owned]
            left = [p for p in trained if p.grad is not None and id(p) not in sent]
            for part in (trained, _first(left, tensor.numel()), _first(left[::-1], tensor.numel())):
                if pen is not None and _is_made_of(tensor, [p.grad for p in part]):
                    self._copied.update((id(p), pen.digest(p.grad)) for p in part)
                    return

    def _look(self) -> None:
        """Finds the modules of the program, and what they train."""
        owned = self.recorder.wrapping.owners()
        modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
        found: dict[int, Any] = {}
        for module in modules:
            for parameter in module._parameters.values():
                if type(parameter) is torch.nn.Parameter and parameter.requires_grad and id(parameter) not in owned:
                    found[id(parameter)] = parameter
        self._modules = [weakref.ref(module) for module in modules]
        self._by_shape = {}
        for parameter in found.values():
            self._by_shape.setdefault(parameter.shape, []).append(weakref.ref(parameter))

    def stepping(self, optimizer: Any) -> None:
        """A step begins."""
        used = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for wrapper in list(self._averaged):
            if self._n_sent < wrapper.n_elements() and any(id(p) in used for _, p in wrapper.trained):
                self._end(wrapper)
        if self._starting is None:
            self._starting = self._found(optimizer)
            if self._starting is not None and not self._starting.apart:  # After steps of those others may replace what they hold.
                self._starting.write_states(StateKind.PARAM, StatePoint.WRAP, self._starting.all)

    def _free(self, optimizer: Any) -> dict[int, Any]:
        """What it trains of no wrapper."""
        owned = self.recorder.wrapping.owners()
        return {id(p): p for group in optimizer.param_groups for p in group["params"]
                if p.requires_grad and id(p) not in owned}

    def _found(self, optimizer: Any) -> Averaged | None:
        """What a first step shows: before it, since it makes the replicas differ where something is wrong, and after it where
        the step itself has called what sends the gradients, as a closure does."""
        if not (self._may_begin() and (self._reduced or self._absent or self._copied)):
            return None
        pen, used = self.recorder.pen, self._free(optimizer)
        # What was not the gradient itself counts if sums have come back: all of it, since some sums leave a gradient as it was.
        copied = {number: digest for number, digest in self._copied.items() if number in used}
        changes = pen is not None and any(pen.digest(used[number].grad) != digest for number, digest in copied.items())
        reduced = self._reduced | set(copied if changes else ())
        reduced |= {number for number in self._absent if number in used and used[number].grad is not None}
        # Of steps that were taken before, nothing was reduced; where a step takes some of what was reduced,
        # other ranks may take the rest, and need not know what else it takes. What has no gradient may have one there.
        left_out = {number for number, p in used.items() if number not in reduced and p.grad is not None}
        begins = reduced and reduced <= set(used) and _is_the_smaller_part(left_out, used) and \
            not any(self._has_stepped(parameter) for parameter in used.values())
        module = self._module_of(set(used)) if begins else None
        return self._made(module, left_out, self._to_one) if module is not None else None

    def stepped(self, optimizer: Any) -> None:
        """A step is over."""
        self._n_sent = 0
        starting = self._starting or self._found(optimizer)
        self._starting, self._to_one = None, False
        if not self._may_begin():
            return
        used = self._free(optimizer)
        # What is sent and stepped with before another backward is something else, such as an outer optimizer's.
        late = self._late if self.n_backwards > self._last_step[0] else set()
        self._late = set()
        self._reduced, self._absent, self._copied = set(), set(), {}
        self._last_step = self.n_backwards, frozenset(used)
        self._stepped.update((number, weakref.ref(p)) for number, p in used.items())
        if starting is None and used and late == set(used):
            module = self._module_of(set(used))
            starting = self._made(module, set(), True) if module is not None else None
        if starting is not None:
            self._begin(starting)

    def _has_stepped(self, parameter: Any) -> bool:
        known = self._stepped.get(id(parameter))
        return known is not None and known() is parameter

    def _module_of(self, trained: set[int]) -> torch.nn.Module | None:
        """The innermost module that trains just these parameters."""
        found: list[tuple[int, torch.nn.Module]] = []
        for place in self._modules:
            module = place()
            if module is not None and {id(p) for p in module.parameters() if p.requires_grad} == trained:
                found.append((sum(1 for _ in module.modules()), module))
        return min(found, key=lambda one: one[0])[1] if found else None

    def _made(self, module: torch.nn.Module, left_out: set[int], apart: bool) -> Averaged:
        recorder, pen = self.recorder, self.recorder.pen
        wrapper = Averaged(recorder, len(recorder.wrapping.all), module, left_out, apart)
        wrapper.place.opt = 1
        recorder.moved(wrapper.place)
        if pen is not None:
            pen.wrap(
                wrapper.index, wrapper.layout([name for name, _ in wrapper.trained]),
                wrapper.layout([name for name, p in wrapper.all.items() if not p.requires_grad]),
                wrapper.layout(list(wrapper.own_buffers())), wrapper.layout(wrapper.ignored), "local", 0, 0, recorder.world, False)
        return wrapper

    def _begin(self, wrapper: Averaged) -> None:
        module = wrapper.module()
        if module is None:
            return
        self.recorder.wrapping.add(wrapper)
        self._averaged.append(wrapper)
        wrapper.gradients.watch()
        wrapper.watch_entry()
        wrapper.follow_data()
        self.recorder.patches.on_undo(wrapper.forget)
        weakref.finalize(module, wrapper.forget)


def _is_the_smaller_part(part: set[int], whole: dict[int, Any]) -> bool:
    """By parameters or by elements: all biases are half of the parameters."""
    n_elements = sum(whole[number].numel() for number in part)
    return 2 * len(part) < len(whole) or 2 * n_elements < sum(p.numel() for p in whole.values())


def _first(parameters: list[Any], n_elements: int) -> list[Any]:
    """As many of the first as have this many elements; none where no number of them has."""
    n_left, taken = n_elements, 0
    while n_left > 0 and taken < len(parameters):
        n_left -= parameters[taken].numel()
        taken += 1
    return parameters[:taken] if n_left == 0 else []


def _is_made_of(tensor: torch.Tensor, grads: list[Any]) -> bool:
    """Whether a buffer is these gradients, one after the other in any order, but for a factor and its precision."""
    if not grads or any(grad is None for grad in grads):
        return False
    if sum(grad.numel() for grad in grads) != tensor.numel():
        return False
    if tensor.numel() == 1:  # Any two numbers are proportional.
        own, whole = float(tensor), next(float(grad) for grad in grads if grad.numel())
        return own == whole or math.isclose(own * dist.get_world_size(), whole, rel_tol=ROUNDINGS)
    parts = tensor.split([grad.numel() for grad in grads])
    product = sum(float(part.double() @ grad.reshape(-1).double()) for part, grad in zip(parts, grads))
    ours, theirs = _sums(parts), _sums(grads)
    if not 0.0 < ours[1] * theirs[1] < math.inf:
        return False
    in_order = product > 0.0 and product * product > (1.0 - ROUNDINGS) * ours[1] * theirs[1]
    return in_order or all(math.isclose(a, b, rel_tol=ROUNDINGS) for a, b in zip(_shape(ours), _shape(theirs)))


def _sums(parts: Iterable[torch.Tensor]) -> tuple[float, float, float]:
    """Of magnitudes, of squares and of their squares."""
    magnitudes = squares = fourths = 0.0
    for part in parts:
        square = part.double().square()
        magnitudes += float(part.double().abs().sum())
        squares += float(square.sum())
        fourths += float(square.square().sum())
    return magnitudes, squares, fourths


def _shape(sums: tuple[float, float, float]) -> tuple[float, float]:
    """What neither the order of the values nor a factor changes."""
    return sums[0] ** 2 / sums[1], sums[2] / sums[1] ** 2


def install(recorder: Recorder) -> None:
    recorder.averaging = Averaging(recorder)
