"""Results that nothing holds: `dist.all_reduce(x.clone())` adds into a copy that is gone when the call returns.

The line says so: the argument is a new value, made by PyTorch where the call is. Calls whose values say nothing are passed over:
programs make them to wait for each other (`dist.all_reduce(torch.zeros(1))`). So are tensors that share their memory, since
the result is there, too, and calls that are waited for later.
"""
from __future__ import annotations

import ast
import linecache
from functools import cache
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import CollectiveOp, LogKind
from lockstep.torch.recorder import say
from lockstep.torch.sites import is_ours, users_frame
from lockstep.torch.variables import ask, is_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType, FrameType

    from lockstep.torch.groups import Call
    from lockstep.torch.recorder import Recorder

_OF_CALLS = ("distributed_c10d.py", "c10d_logger.py")
# Methods that return their tensor where there is nothing to do, as those that work in place always do; and functions.
_GIVE_BACK = frozenset(("bfloat16", "contiguous", "cpu", "cuda", "double", "flatten", "float", "half", "int", "long", "to", "type"))
_GIVE_ARGUMENT_BACK = frozenset(("as_tensor", "asarray", "atleast_1d", "atleast_2d", "atleast_3d"))
_MOST = 3  # Calls of a place that are looked at.
_COUNT: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)  # Not in PyTorch 1.13.


@cache
def _call_at(code: CodeType, instruction: int) -> ast.Call | None:
    """The call that an instruction is, as it is written; None: not known (before Python 3.11, or without a source)."""
    positions = getattr(code, "co_positions", None)
    place = next(islice(positions(), instruction // 2, None), None) if positions is not None else None
    if place is None or None in place:
        return None
    first, last, begin, end = place
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1:last]]
    if len(lines) != last - first + 1:
        return None
    lines[-1] = lines[-1][:end]  # Columns are counted in bytes.
    lines[0] = lines[0][begin:]
    try:
        written = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return None  # The file has been changed since.
    return written if isinstance(written, ast.Call) else None


def _tensor_of(call: ast.Call) -> ast.expr | None:
    named = [one.value for one in call.keywords if one.arg == "tensor"]
    return next(iter([*named, *call.args]), None)


def _is_made_there(written: ast.expr, frame: FrameType) -> bool:
    """Whether an expression makes a tensor: `x / n`, `x.clone()`, `torch.tensor(n)`. What a function of the program returns may be
    held by it, and `self.x.cpu()` is `self.x` on the host."""
    if isinstance(written, (ast.BinOp, ast.UnaryOp)):
        return True
    function = written.func if isinstance(written, ast.Call) else None
    if not isinstance(function, ast.Attribute):
        return False
    name = function.attr
    if name in _GIVE_BACK or (name.endswith("_") and hasattr(torch.Tensor, name)):
        return isinstance(function.value, ast.Name) or _is_made_there(function.value, frame)
    if name in _GIVE_ARGUMENT_BACK:
        return False
    return name == "clone" or (_is_of_pytorch(function.value, frame) and (hasattr(torch.Tensor, name) or hasattr(torch, name)))


def _is_of_pytorch(written: ast.expr, frame: FrameType) -> bool:
    """Whether an expression begins with a tensor or a module: `x.grad.sum()`. An object of the program has methods of its own."""
    while isinstance(written, (ast.Attribute, ast.Subscript, ast.Call)):
        written = written.func if isinstance(written, ast.Call) else written.value
    if not isinstance(written, ast.Name):
        return isinstance(written, (ast.BinOp, ast.UnaryOp))
    name = written.id

    def is_known(own: Mapping[str, Any], of_module: Mapping[str, Any]) -> bool:
        return isinstance(own.get(name, of_module.get(name)), (torch.Tensor, ModuleType))

    return ask(frame, is_known, False)


def _is_alone(tensor: Any) -> bool:
    """Whether the memory is this tensor's and no other's: no view of it, no array of NumPy's."""
    if _COUNT is None or type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        return False
    storage = tensor.untyped_storage()
    of_torch = storage.resizable() and (storage.device.type != "cpu" or not storage.is_shared())
    return of_torch and _COUNT(storage._cdata) == _n_of_one()


@cache
def _n_of_one() -> int:
    """How many hold the memory of a tensor that shares it with no other."""
    assert _COUNT is not None
    tensor = torch.empty(1)
    storage = tensor.untyped_storage()
    return _COUNT(storage._cdata)


def _calls_itself(frame: FrameType | None, users: FrameType) -> bool:
    """Whether a function of the user's has called the collective, and no function of PyTorch's that has a tensor of its own."""
    while frame is not None and frame is not users:
        file = frame.f_code.co_filename
        if not file.endswith(_OF_CALLS) and not is_ours(file):
            return False
        frame = frame.f_back
    return True


def _says_something(tensor: torch.Tensor) -> bool:
    """Not a lone zero or one, nor one value throughout."""
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    with torch.no_grad():
        flat = tensor.reshape(-1)
        return flat.item() not in (0, 1) if flat.numel() == 1 else not bool((flat == flat[:1]).all())


class DroppedResults:
    """Of one rank. A place in the program is named once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._n_seen: dict[tuple[CodeType, int], int] = {}

    def posted(self, call: Call, is_async: bool, root: int) -> None:
        receives = call.op is CollectiveOp.ALL_REDUCE or (
            call.op is CollectiveOp.BROADCAST and call.calls.number == 0 and root != call.calls.rank)
        frame = users_frame(call.frame) if receives and not is_async and len(call.inputs) == 1 else None
        if frame is None:
            return
        place = frame.f_code, frame.f_lasti
        n = self._n_seen[place] = self._n_seen.get(place, 0) + 1
        if n > _MOST or not _calls_itself(call.frame, frame):
            return
        written = _call_at(*place)
        argument = _tensor_of(written) if written is not None else None
        tensor = call.inputs[0]
        if argument is None or not _is_made_there(argument, frame) or not _is_alone(tensor) or is_variable(tensor, frame):
            return
        if _says_something(tensor):
            self._n_seen[place] = _MOST
            where = f" at {call.site}" if call.site else ""
            text = f"the {call.op.name.lower()}{where} has its result in {ast.unparse(argument)}, which no variable holds"
            say(f"rank {self._recorder.rank}: {text}")
            if self._recorder.pen is not None:
                self._recorder.pen.log(LogKind.RESULT_DROPPED, text)
