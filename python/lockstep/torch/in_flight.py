"""Memory in flight: what a program does to the tensors of a call between posting it and waiting for it.

groups.py hands over asynchronous calls that the program itself made, with tensors on the CPU. While one
is open, a dispatch mode of PyTorch's sees every operation of this thread; none is changed. The wait of a
work ends the loan, and so does anything else through which a program can learn that a call is over: its
future, its result, is_completed(). Calls of a group are in order where NCCL makes them, so waiting for one,
such as a barrier, is waiting for those before it in its group. A mode that the program has entered itself is
left alone: then nothing is watched. A call that is never waited for is watched for MOST_OPERATIONS only.

Autograd restores the modes of the thread after each node, so a mode that a hook has entered lasts as long as the hook:

    hook: all_reduce(p.grad, async_op=True)   the watch is entered, and lost with the hook
    backward() returns                        entered again if a call is still open
    p.grad /= n                               seen
"""
from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from lockstep.enums import CollectiveOp
from lockstep.torch import groups
from lockstep.torch.recorder import BACKWARD
from lockstep.torch.sites import is_ours, shown, site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from lockstep.torch.groups import Call
    from lockstep.torch.recorder import Recorder

SEAM = "in flight"
MOST_OPERATIONS = 10_000
_ENDS = ("wait", "synchronize", "get_future", "result", "is_completed", "block_current_stream")
_DISPATCH = "torch/_ops.py"
_C10D = "distributed_c10d.py"
_PASSING = (_C10D, "c10d_logger.py", "torch/_compile.py", "torch/_dynamo/eval_frame.py", _DISPATCH)
_OTHERS = frozenset(("c10d", "_c10d_functional", "profiler", "prim"))
# What looks at the shape alone.
_SHAPE_ONLY = frozenset(("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "new_empty",
                         "new_zeros", "new_ones", "new_full", "new_empty_strided", "is_same_size", "record_stream"))
# Whose output is the input as well.
_IN_PLACE = frozenset((CollectiveOp.ALL_REDUCE, CollectiveOp.BROADCAST, CollectiveOp.REDUCE, CollectiveOp.RECV))


@dataclass
class _Loan:
    """What one call may read or write until it is over, by the addresses of storages."""

    call: Call
    work: Any
    receives: frozenset[int]
    sends: frozenset[int]
    seen: set[tuple[bool, str]] = field(default_factory=set)


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, flight: InFlight) -> None:
        super().__init__()
        self._flight = flight

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given, flight = kwargs or {}, self._flight
        try:
            flight.saw(func, args, given, sys._getframe(1))
        except Exception as error:
            flight.recorder.trouble(SEAM, error)
        if func is torch.ops.aten._local_scalar_dense.default and not torch.is_tensor(args[0]):
            return args[0]  # A number that a graph has saved, such as a loss's divisor: PyTorch passes it to modes as it is.
        flight.inside = True
        try:
            return func(*args, **given)
        finally:
            flight.inside = False


class InFlight:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._loans: list[_Loan] = []
        self.inside = False  # An operation runs below the watch, which is not the innermost mode meanwhile.
        self._watch: _Watch | None = None
        self._thread = 0
        self._is_of_hook = False  # The watch was entered in a backward.
        self._left = 0  # Operations that are still looked at.
        self._classes: set[type] = set()

    def posted(self, call: Call, work: Any) -> None:
        """The program has been given the work of a call."""
        if work is None or call.frame is None or not _is_asked_by_program(call.frame) or not self._looks():
            return
        if call.frame.f_code.co_filename.endswith(_DISPATCH) and not self.inside:
            return  # A mode of the program's own runs the call: none can be entered below it.
        tensors = [*call.inputs, *call.outputs]
        if not tensors or any(type(one) is not torch.Tensor or one.device.type != "cpu" for one in tensors):
            return
        inputs, outputs = _storages(call.inputs), _storages(call.outputs)
        receives = inputs | outputs if call.op in _IN_PLACE else outputs
        if self._enter():
            self._watch_ends(type(work))
            self._loans.append(_Loan(call, work, receives, inputs - receives))

    def _looks(self) -> bool:
        wrappers = self.recorder.wrapping.all
        return not wrappers or any(wrapper.looks for wrapper in wrappers)

    def _enter(self) -> bool:
        """Whether this thread is watched from now on."""
        if self.inside and self._thread == threading.get_ident():
            return True
        current = _get_current_dispatch_mode()
        if self._watch is not None and current is self._watch and self._thread == threading.get_ident():
            self._left = MOST_OPERATIONS
            return True
        if self._is_of_hook and self._thread == threading.get_ident():
            self._watch = None  # An earlier hook's, which is lost.
        if current is not None or self._watch is not None:
            return False
        self._watch, self._thread, self._left = _Watch(self), threading.get_ident(), MOST_OPERATIONS
        self._is_of_hook = self.recorder.scope == BACKWARD
        self._watch.__enter__()
        return True

    def _leave(self) -> None:
        """As soon as this thread's innermost mode is the watch."""
        if self._watch is None or self._thread != threading.get_ident():
            return
        if self.recorder.scope == BACKWARD and not self._is_of_hook:
            return  # A hook that left the mode would find it entered again: after_backward does.
        if _get_current_dispatch_mode() is self._watch:
            watch, self._watch = self._watch, None
            watch.__exit__(None, None, None)

    def over(self, work: Any) -> None:
        """The program knows of the end of a call, or could have."""
        kinds = {type(loan.work) for loan in self._loans}
        # Which others a work of another kind stands for is not known.
        if type(work) not in kinds:
            self._loans = []
        for loan in self._loans:
            if loan.work is work:
                self.settle(loan.call.calls.number, loan.call.seq)
                break
        if not self._loans:
            self._leave()

    def settle(self, group: int, seq: int | None = None) -> None:
        """The program waits for a call of the group: those before it, or all, are over."""
        self._loans = [loan for loan in self._loans
                       if loan.call.calls.number != group or (seq is not None and loan.call.seq > seq)]
        if not self._loans and not self.inside:
            self._leave()

    def after_backward(self) -> None:
        """No node of it is running."""
        if self._is_of_hook and self._thread == threading.get_ident():
            self._watch, self._is_of_hook = None, False
        if not self._loans:
            self._leave()
        elif self._watch is None:
            self._enter()

    def forget(self) -> None:
        self._loans = []
        self._leave()

    def _watch_ends(self, kind: type) -> None:
        for owner in kind.__mro__:
            if owner in self._classes or not any(name in vars(owner) for name in _ENDS):
                continue
            self._classes.add(owner)
            for name in _ENDS:
                if name in vars(owner):
                    self.recorder.patches.wrap(owner, name, self._ending)

    def _ending(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def ending(work: Any, *args: Any, **kwargs: Any) -> Any:
            if (self._loans or self._watch is not None) and sys._getframe(1).f_code.co_filename != groups.__file__:  # It only polls.
                self.recorder.quietly(SEAM, lambda: self.over(work))
            return real(work, *args, **kwargs)
        return ending

    def saw(self, func: Any, args: Any, kwargs: Any, frame: FrameType) -> None:
        """An operation is about to run."""
        self._left -= 1
        if self._left <= 0:
            self._loans = []
        if not self._loans or func.namespace in _OTHERS or func._schema.name.partition("::")[2] in _SHAPE_ONLY:
            return
        if getattr(func, "is_view", False):
            return
        for tensor, written in _operands(func, args, kwargs):
            address = _storage(tensor)
            for loan in self._loans if address else ():
                if address in loan.receives or (written and address in loan.sends):
                    self._touched(loan, func, written, address in loan.receives, frame)

    def _touched(self, loan: _Loan, func: Any, written: bool, receives: bool, frame: FrameType) -> None:
        file, line = site(frame)
        key = (written, f"{file}:{line}")
        pen = self.recorder.pen
        if key in loan.seen or pen is None:
            return
        loan.seen.add(key)
        call = loan.call
        pen.touch(self.recorder.current.wrapper, written, func._schema.name.partition("::")[2], file, line,
                  call.calls.number, call.seq, call.op.name.lower(), receives, call.site)


def _outside(frame: FrameType) -> FrameType:
    """The nearest frame that is neither c10d's, nor a virtual group's, nor the watch's."""
    while frame.f_back is not None and (frame.f_code.co_filename.endswith(_PASSING) or is_ours(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame


def _is_asked_by_program(frame: FrameType) -> bool:
    """By one of c10d's functions, and not by a library of PyTorch's, which knows when its calls are over. What DDP itself
    reduces, it posts without any of them.
    """
    outside = _outside(frame)
    through: FrameType | None = frame
    while through is not outside and through is not None and not through.f_code.co_filename.endswith(_C10D):
        through = through.f_back
    return through is not outside and bool(shown(outside.f_code.co_filename))


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr()) if type(tensor) in (torch.Tensor, torch.nn.Parameter) else 0


def _storages(tensors: Any) -> frozenset[int]:
    return frozenset(address for address in map(_storage, tensors) if address)


def _operands(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, bool]]:
    """The tensors of an operation, and whether it writes them."""
    for index, argument in enumerate(func._schema.arguments):
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        info = argument.alias_info
        written = info is not None and info.is_write
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if torch.is_tensor(one):
                yield one, written


def install(recorder: Recorder) -> None:
    flight = InFlight(recorder)
    recorder.in_flight = flight
    recorder.patches.on_undo(flight.forget)
