"""The seam to process groups: which there are, and every call in them, DDP's own included.

Primary: the hooks of ProcessGroup (register_pre_hook, register_post_hook), which see every call with
its tensors. They name neither the reduce operation nor the peer of a message: those are read from the
frame of c10d's own function. A PyTorch whose groups have no such hooks yields no collectives, and the
trace says so.
"""
from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed.distributed_c10d as c10d

from lockstep.enums import CollectiveOp, DType, LogKind, ReduceOp
from lockstep.torch.dropped_results import DroppedResults
from lockstep.torch.overlapping_results import OverlappingResults
from lockstep.torch.recorder import BACKWARD, DTYPES
from lockstep.torch.sites import local_of, site, site_here

if TYPE_CHECKING:
    from collections.abc import Callable, Set
    from types import FrameType

    from lockstep._core import Pen
    from lockstep.torch.recorder import Recorder

SEAM = "groups"
TIMED_OUT = "lockstep_timed_out"  # Of an error: a deadline has passed that no clock of ours shows.
HOOK_ID = 0x10C5  # Hooks of others have other numbers.
C10D = "distributed_c10d.py"
_CALLERS = frozenset((
    "all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "_reduce_scatter_base",
    "all_reduce_coalesced", "reduce_scatter_single", "send", "isend", "recv", "irecv"))
_OPS = {
    "ALLREDUCE": CollectiveOp.ALL_REDUCE, "ALLREDUCE_COALESCED": CollectiveOp.ALL_REDUCE,
    "BROADCAST": CollectiveOp.BROADCAST, "REDUCE": CollectiveOp.REDUCE,
    "ALLGATHER": CollectiveOp.ALL_GATHER, "REDUCE_SCATTER": CollectiveOp.REDUCE_SCATTER,
    "GATHER": CollectiveOp.GATHER, "SCATTER": CollectiveOp.SCATTER,
    "ALLTOALL": CollectiveOp.ALL_TO_ALL, "BARRIER": CollectiveOp.BARRIER,
    "SEND": CollectiveOp.SEND, "RECV": CollectiveOp.RECV}
_MESSAGES = (CollectiveOp.SEND, CollectiveOp.RECV)
_VARIANTS = ("_BASE", "_COALESCED", "_SINGLE")
_known: dict[int | str, CollectiveOp | None] = {}
ENGINE = "_engine_run_backward"  # The last function of Python's in a backward.
_REDUCES = {"SUM": ReduceOp.SUM, "AVG": ReduceOp.AVG, "PRODUCT": ReduceOp.PRODUCT,
            "MIN": ReduceOp.MIN, "MAX": ReduceOp.MAX, "PREMUL_SUM": ReduceOp.PREMUL_SUM,
            "BAND": ReduceOp.BAND, "BOR": ReduceOp.BOR, "BXOR": ReduceOp.BXOR}


def op_of(name: str) -> CollectiveOp | None:
    """The operation that a hook's name stands for: "ALLGATHER_BASE" is an all_gather."""
    name = name.removeprefix("_")
    for ending in _VARIANTS:
        name = name.removesuffix(ending)
    return _OPS.get(name)


def _op_named(name: Any) -> CollectiveOp | None:
    """The same, remembered by what the hook calls it."""
    key: int | str = name if isinstance(name, str) else int(name)  # An enum's own hash is far slower.
    if key not in _known:
        _known[key] = op_of(str(name).rpartition(".")[2])
    return _known[key]


@dataclass
class Call:
    """A collective of the program as it is posted."""

    op: CollectiveOp
    reduce: ReduceOp
    calls: Calls
    seq: int
    inputs: list[Any]
    outputs: list[Any]
    site: str
    frame: FrameType | None


class Calls:
    """The calls of one group: what was posted, and what has completed since."""

    def __init__(self, groups: Groups, number: int, group: Any) -> None:
        self.recorder = groups.recorder
        self._left_out = groups.recorder.left_out
        self.number: int = number
        self.size: int = int(group.size())
        self.rank: int = int(group.rank())
        self.open = groups.open  # Ticket -> work, of all groups.
        self._awaited = groups.awaited
        self._overlapping = groups.overlapping
        self._dropped = groups.dropped
        self._posted: dict[int, int] = {}  # PyTorch's number of a call -> ticket.
        self._asked: dict[int, Call] = {}  # The same -> what the program itself posted without waiting for it.
        self.n_own: int = 0  # Calls of a wrapper's own that have been recorded,
        self._own_site = ("", 0)  # where the last one was made,
        self.n_called: int = 0  # calls of its own in windows that are left out,
        self._n_written = 0  # and how many of those the trace counts.
        self._posting: Any = None  # The last of them, before it was posted ...
        self._taken: Any = None  # ... and after that.

    def posting(self, call: Any) -> None:
        recorder = self.recorder
        pen = recorder.pen
        if pen is None:
            return
        try:
            # Between DDP's own reductions and the engine there is no function of c10d's.
            frame = sys._getframe().f_back  # None: the engine's own thread, as GPUs have it.
            own = frame is None or frame.f_code.co_name == ENGINE
            if own and self._left_out.now and self._count(call):
                return
            if self.open:
                recorder.poll()
            if own:
                self._write_own(call, pen, recorder.scope, *site(frame))
            elif frame is not None:
                self._write(call, pen, frame)
        except Exception as error:
            recorder.trouble(SEAM, error)

    def _count(self, call: Any) -> bool:
        """A call of a window that is left out. Returns: whether it still is."""
        left_out = self._left_out
        with left_out.lock:
            if left_out.now:
                self._posting = call
                self.n_called += 1
            return left_out.now

    def _write_own(self, call: Any, pen: Pen, scope: str, file: str, line: int) -> None:
        """A reduction of DDP's own: every step has some, so this asks no more than it must."""
        if self.n_called != self._n_written:
            self.write_left_out()
        self._post_own(call, pen, scope, file, line)

    def _post_own(self, call: Any, pen: Pen, scope: str, file: str, line: int) -> None:
        op = _op_named(call.name)
        if op is None:
            return
        self.n_own += 1
        self._own_site = file, line
        recorder = self.recorder
        tensors = call.input_tensors or call.output_tensors[:1]
        ticket = pen.posted_own(recorder.current.wrapper, self.number, op, tensors, call.async_op, call.root,
                                file, line, scope)
        self._posted[call.op_id] = ticket
        if scope == BACKWARD:
            recorder.reduced = True
            if not tensors or not tensors[0].is_cuda:
                self._awaited.add(ticket)

    def _write(self, call: Any, pen: Pen, frame: FrameType) -> None:
        op = _op_named(call.name)
        recorder = self.recorder
        current, reduce = recorder.current.wrapper, ReduceOp.SUM
        if op is None:
            return
        if self.n_called != self._n_written:
            self.write_left_out()
        given = local_of(_CALLERS, C10D, frame)
        inputs = call.input_tensors
        if op is CollectiveOp.SCATTER or not inputs:
            inputs = list(call.output_tensors)[:1]
        dtype, on_gpu, count = DType.U8, False, 0
        if inputs:
            first = inputs[0]
            dtype, on_gpu = DTYPES.get(first.dtype, DType.U8), first.is_cuda
            count = first.numel() if len(inputs) == 1 else sum([tensor.numel() for tensor in inputs])
        if not recorder.scope:
            recorder.batches.settle_evaluation()
        file, line = site(frame)
        self._overlapping.posted(op, call.output_tensors, file, line)
        root, peer, tag = call.root, -1, 0
        if given:
            reduce = _reduce_of(given)
        if op in _MESSAGES:
            root, peer, tag = -1, _peer_of(given), int(given.get("tag") or 0)
        ticket = pen.posted(current, self.number, op, reduce, dtype, on_gpu, call.async_op, root, peer, tag,
                            count, 0, 0, file, line, recorder.scope)
        recorder.reduced = recorder.reduced or recorder.scope == BACKWARD
        self._posted[call.op_id] = ticket
        if self.size > 1 and recorder.exchanges is not None:
            posted = Call(op, reduce, self, pen.seq_of(ticket), inputs, call.output_tensors,
                          f"{file}:{line}" if file else "", frame)
            self._dropped.posted(posted, call.async_op, call.root)
            recorder.exchanges.posted(posted)
            if recorder.in_flight is not None:
                if call.async_op:
                    self._asked[call.op_id] = posted
                else:
                    recorder.in_flight.settle(self.number)
            if recorder.averaging is not None:
                recorder.averaging.posted(posted)
            if recorder.shard_factors is not None:
                recorder.shard_factors.posted(posted)

    def write_left_out(self) -> None:
        """What was only counted so far. A call that has not completed is recorded as any other."""
        with self._left_out.lock:
            n = self.n_called - self._n_written
            if self.recorder.pen is not None and n > 0:
                self._write_counted(self.recorder.pen, n)
            self._posting = self._taken = None
            self._n_written = self.n_called  # Last: until then the other thread waits for the lock.

    def _write_counted(self, pen: Pen, n: int) -> None:
        call, taken = self._posting, self._taken
        is_taken = taken is not None and taken.op_id == call.op_id
        over = is_taken and _is_over(taken.work, False) == (True, True)
        if n > 1 or over:
            pen.leave_out(self.recorder.current.wrapper, self.number, n if over else n - 1)
        if not over:
            self._post_own(call, pen, BACKWARD, *self._own_site)
        if not over and is_taken:
            self._take(taken)

    def take_refused(self) -> list[int]:
        """Tickets of calls that the backend never took."""
        tickets = list(self._posted.values())
        self._posted.clear()
        return tickets

    def monitored(self, barrier: Callable[[], Any], deadline: float) -> Any:
        """A barrier whose messages no hook sees: all ranks of the group wait for each other in it."""
        ticket = self.recorder.quietly(SEAM, lambda: self._post_barrier(*site_here()))
        well = False
        try:
            result = barrier()
            well = True
            return result
        except RuntimeError as error:
            if getattr(error, TIMED_OUT, False):
                deadline = sys.float_info.min
            raise
        finally:
            self.recorder.quietly(SEAM, lambda: self._end_barrier(ticket, well, deadline))

    def _post_barrier(self, file: str, line: int) -> int | None:
        recorder, pen = self.recorder, self.recorder.pen
        if pen is None:
            return None
        if self.n_called != self._n_written:
            self.write_left_out()
        return pen.posted(recorder.current.wrapper, self.number, CollectiveOp.BARRIER, ReduceOp.SUM, DType.U8, False, False,
                          -1, -1, 0, 0, 0, 0, file, line, recorder.scope)

    def _end_barrier(self, ticket: int | None, well: bool, deadline: float) -> None:
        if ticket is not None and self.recorder.pen is not None:
            self.recorder.pen.completed(self.recorder.current.wrapper, ticket, well, deadline)

    def posted(self, call: Any) -> None:
        try:
            if self.n_called == self._n_written or not self._note_taken(call):
                self._take(call)
        except Exception as error:
            self.recorder.trouble(SEAM, error)

    def _note_taken(self, call: Any) -> bool:
        """The backend has taken the last call that was counted. Returns: whether it is not written yet."""
        with self._left_out.lock:
            if self.n_called == self._n_written:
                return False
            self._taken = call
            return True

    def _take(self, call: Any) -> None:
        ticket = self._posted.pop(call.op_id, None)
        if ticket is None:
            return
        work = self.open[ticket] = call.work
        if work is None:
            self.recorder.poll()
        asked = self._asked.pop(call.op_id, None)
        if asked is not None and self.recorder.in_flight is not None:
            self.recorder.in_flight.posted(asked, work)


def _reduce_of(given: dict[str, Any]) -> ReduceOp:
    op = given.get("op")
    if op is None:
        op = getattr(given.get("opts"), "reduceOp", None)
    kind = getattr(op, "op", op)  # Newer versions keep the kind in an object.
    return _REDUCES.get(str(kind).rpartition(".")[2], ReduceOp.SUM)


def _peer_of(given: dict[str, Any]) -> int:
    for key in ("group_dst", "group_src", "dst", "src"):
        if given.get(key) is not None:
            return int(given[key])
    return -1


def _is_over(work: Any, has_not_failed: bool) -> tuple[bool, bool]:
    """Whether a call is over, and went well. `has_not_failed`: its future need not be asked."""
    if work is None:
        return True, True
    known = getattr(work, "known_end", None)
    if known is not None:  # A virtual rank's: asking the work itself would be an event of the program.
        over, ok = known()
        return bool(over), bool(ok)
    return (True, has_not_failed or not _holds_error(work)) if work.is_completed() else (False, True)


def _holds_error(work: Any) -> bool:
    """Whether the future of a call, if it has one and is done, holds what the call failed with."""
    try:
        future = work.get_future()
        if future.done():
            future.value()
    except NotImplementedError:
        pass  # Not every backend has futures.
    except RuntimeError as error:
        return "getFuture" not in str(error)
    return False


def _has_raised(work: Any) -> bool:
    """Whether a call that is not said to be over has failed."""
    if work is None or getattr(work, "known_end", None) is not None:
        return False
    return _holds_error(work)


class Groups:
    """All groups of this rank."""

    def __init__(self, recorder: Recorder, on_first_group: Callable[[], None]) -> None:
        self.recorder = recorder
        self.open: dict[int, Any] = {}
        self.awaited: set[int] = set()  # Tickets that the backward running now waits for, and raises if they fail.
        self.numbers: dict[str, int] = {}  # By c10d's name.
        self._calls: list[Calls] = []
        self.overlapping = OverlappingResults(recorder)
        self.dropped = DroppedResults(recorder)
        self.deadlines: dict[int, float] = {}  # Seconds that a call may last, by number; 0: not known.
        self._monitored: set[Any] = set()  # Classes of groups.
        self._on_first_group = on_first_group

    def calls_of(self, number: int) -> Calls | None:
        return next((calls for calls in self._calls if calls.number == number), None)

    def asked_for(self, given: dict[str, Any]) -> None:
        """Members are about to make a group. They may wait in there for ranks that have another one in mind."""
        ranks, pen = [int(rank) for rank in given["global_ranks_in_group"]], self.recorder.pen
        if pen is not None and self.recorder.rank in ranks:
            pen.group(_number_of(str(given["group_name"])), ranks)

    def made(self, result: Any, given: dict[str, Any]) -> None:
        """c10d has made a group, of which this rank may be no member."""
        group = result[0] if isinstance(result, tuple) else result
        if group is None or not hasattr(group, "register_pre_hook"):
            self._without_hooks(group, given)
            return
        ranks = [int(rank) for rank in given["global_ranks_in_group"]]
        if not ranks:
            self._first(group, given)
        recorder = self.recorder
        if recorder.pen is None:
            return
        name = str(given["group_name"])
        number = 0 if not ranks else _number_of(name)
        self.numbers[name] = number
        self.deadlines[number] = _deadline_of(group)
        calls = Calls(self, number, group)
        self._calls.append(calls)
        group.register_pre_hook(HOOK_ID, calls.posting)
        group.register_post_hook(HOOK_ID, calls.posted)
        recorder.patches.on_undo(lambda: _remove_hooks(group))
        self._see_monitored(type(group))

    def _see_monitored(self, kind: Any) -> None:
        """Barriers that name who is missing call no hook: their method is replaced in the class of groups, once."""
        def make(real: Callable[..., Any]) -> Callable[..., Any]:
            def monitored_barrier(group: Any, *args: Any, **kwargs: Any) -> Any:
                calls = self.calls_of(self.numbers.get(str(getattr(group, "group_name", "")), -1))
                if calls is None or self.recorder.pen is None:
                    return real(group, *args, **kwargs)
                timeout = next(iter(args), kwargs.get("timeout"))
                return calls.monitored(lambda: real(group, *args, **kwargs), _seconds(timeout))
            return monitored_barrier

        if kind not in self._monitored:
            self._monitored.add(kind)
            self.recorder.patches.wrap(kind, "monitored_barrier", make)

    def _without_hooks(self, group: Any, given: dict[str, Any]) -> None:
        if group is None or not hasattr(group, "size"):
            return  # A group of other ranks.
        if not given["global_ranks_in_group"]:
            self._first(group, given)
        if self.recorder.pen is not None:
            self.recorder.pen.log(LogKind.MISSED, "all collectives: this PyTorch's process groups have no hooks for them")

    def _first(self, group: Any, given: dict[str, Any]) -> None:
        recorder = self.recorder
        if recorder.pen is not None:
            return  # The script left its world and joined one again.
        backend = str(given["backend"]).rpartition(":")[2]
        recorder.open(int(given["group_rank"]), int(given["group_size"]), backend)
        recorder.poll = self.poll
        self._on_first_group()

    def give_up(self) -> None:
        """The rank ends by an exception. Calls that raised it have failed: while they were posted, or in their future. Gloo
        hands a waiter the error of a broken connection before the work says that it is over, if it ever does."""
        pen = self.recorder.pen
        if pen is None:
            return
        failed = [ticket for calls in self._calls for ticket in calls.take_refused()]
        failed += [ticket for ticket, work in list(self.open.items())
                   if _has_raised(work) and self.open.pop(ticket, self) is not self]
        for ticket in failed:
            pen.completed(self.recorder.current.wrapper, ticket, False, self._deadline_of(pen, ticket))

    def _deadline_of(self, pen: Pen, ticket: int) -> float:
        return self.deadlines.get(pen.group_of(ticket), 0.0)

    def after_backward(self) -> None:
        """A backward has returned: what it waits for went well, or it had raised."""
        self.poll(self.awaited)
        self.awaited.clear()

    def poll(self, well: Set[int] = frozenset()) -> None:
        """Records the calls that have completed since. `well`: those that are known not to have failed."""
        recorder = self.recorder
        if not self.open or recorder.pen is None:
            return
        for ticket, work in list(self.open.items()):
            over, ok = _is_over(work, ticket in well)
            if over and self.open.pop(ticket, self) is not self:
                deadline = 0.0 if ok else self._deadline_of(recorder.pen, ticket)
                recorder.pen.completed(recorder.current.wrapper, ticket, ok, deadline)


def _remove_hooks(group: Any) -> None:
    for name in ("unregister_pre_hook", "unregister_post_hook"):
        try:
            getattr(group, name)(HOOK_ID)
        except (AttributeError, RuntimeError):
            pass  # The group is gone, and its hooks with it.


def _deadline_of(group: Any) -> float:
    """Seconds; 0 where the group does not say."""
    try:
        return _seconds(group._get_backend(torch.device("cpu")).options._timeout)
    except (AttributeError, RuntimeError):
        return 0.0


def _seconds(timeout: Any) -> float:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else 0.0


def _number_of(name: str) -> int:
    """Names of c10d are equal on all members; most are numbers."""
    if name.isdigit() and 0 < int(name) < 1 << 20:
        return int(name)
    return (1 << 20) + zlib.crc32(name.encode()) % (1 << 30)


def install(recorder: Recorder, on_first_group: Callable[[], None]) -> None:
    """Sees every group that is made from now on, and the world if it exists already."""
    groups = Groups(recorder, on_first_group)
    recorder.groups = groups
    names = ("group_size", "group_rank", "global_ranks_in_group", "backend", "store", "group_name")

    def make(real: Callable[..., Any]) -> Callable[..., Any]:
        def helper(*args: Any, **kwargs: Any) -> Any:
            given = dict(zip(names, args)) | kwargs
            recorder.quietly(SEAM, lambda: groups.asked_for(given))
            result = real(*args, **kwargs)
            recorder.quietly(SEAM, lambda: groups.made(result, given))
            return result
        return helper

    if not recorder.patches.wrap(c10d, "_new_process_group_helper", make):
        raise RuntimeError("this PyTorch makes process groups in a way that is not known here")
    if c10d.is_initialized():
        world = c10d._get_default_group()
        recorder.quietly(SEAM, lambda: groups.made(
            world, {"group_size": world.size(), "group_rank": world.rank(), "group_name": "0",
                    "global_ranks_in_group": [], "backend": c10d.get_backend()}))
