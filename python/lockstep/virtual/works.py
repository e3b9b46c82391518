"""Calls that are under way, and what c10d's users hold of them: works and futures.

A rank always waits in Python, in the coordinator's socket, so that the coordinator knows that it waits
and for what. C++ code that waits for a future (the reducer, at the end of a backward) must find it
complete: see Backwards.
"""
from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.futures import Future

from lockstep.virtual.connection import Refused
from lockstep.virtual.timeouts import seconds_of
from lockstep.virtual.wire import CallProblem, CommStatus, RequestKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from lockstep.virtual.arena import Arena
    from lockstep.virtual.connection import Connection

FIRST_NAP_NS = 1_000_000


def is_plain(tensor: torch.Tensor) -> bool:
    """Its elements lie in memory one after another, as they are."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def copy_in(address: int, tensor: torch.Tensor) -> None:
    """Below autograd and every mode, as c10d's backends read memory."""
    plain = tensor if is_plain(tensor) else _untracked(tensor.resolve_conj().resolve_neg()).contiguous()
    ctypes.memmove(address, plain.data_ptr(), plain.numel() * plain.element_size())


def copy_out(tensor: torch.Tensor, address: int) -> None:
    size = tensor.numel() * tensor.element_size()
    if is_plain(tensor):
        ctypes.memmove(tensor.data_ptr(), address, size)
        return
    dense = torch.empty(tensor.shape, dtype=tensor.dtype)
    ctypes.memmove(dense.data_ptr(), address, size)
    _untracked(tensor).copy_(dense)


def _untracked(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.data


class CallFailed(RuntimeError):
    """A call did not end well. A RuntimeError, as c10d's own backends raise it."""


def timed_out(seconds: float, what: str, detail: str = "", backend: str = "gloo") -> CallFailed:
    """In the words of the backend that the script asked for, which programs look for."""
    if backend == "nccl":
        return CallFailed(f"[lockstep] Watchdog caught collective operation timeout: {what} ran for {seconds * 1000:.0f} "
                          f"milliseconds before timing out{'. ' * bool(detail)}{detail}")
    return CallFailed(f"[lockstep] Timed out waiting {seconds * 1000:.0f}ms for {what} operation to complete"
                      f"{'. ' * bool(detail)}{detail}")


class Call:
    """One call of a group, from its post to its end."""

    def __init__(self, calls: Calls, ticket: int, what: str, block: tuple[int, int],
                 results: list[tuple[torch.Tensor, int]], timeout_s: float, backend: str) -> None:
        self.backend = backend  # That the script asked for.
        self.ticket = ticket
        self.what = what  # "all_reduce of 12 f32"
        self.over = False
        self.error: Exception | None = None
        self.source = -1
        self.on_end: Callable[[], None] = lambda: None
        self._calls = calls
        self._block = block
        self._results = results  # Tensor and where in memory its result will be.
        self._timeout_s = timeout_s

    def settle(self) -> None:
        """Waits for the end. Raises nothing but Stopped: see `error`."""
        if self.over:
            return
        reply = self._calls.connection.ask(RequestKind.WAIT, ticket=self.ticket)
        if self.over:  # Another thread was quicker.
            return
        self.over = True
        self.source, text = reply.done()
        if reply.status == CommStatus.OK:
            for tensor, address in self._results:
                copy_out(tensor, address)
        else:
            self.error = self._error_of(reply.status, text)
        self._results = []
        self._calls.forget(self, self._block)
        self.on_end()

    def _error_of(self, status: int, text: str) -> Exception:
        if status == CommStatus.TIMED_OUT:
            return timed_out(self._timeout_s, self.what, text, self.backend)
        if status == CallProblem.CONTRACT:
            return Refused(text)
        if status == CallProblem.INJECTED:
            return RuntimeError(text)
        return CallFailed(text or f"{self.what}: {CommStatus(status).name.lower()}")

    def poll(self) -> bool:
        """Whether it is over. A scheduling point."""
        if not self.over:
            reply = self._calls.connection.ask(RequestKind.TEST, ticket=self.ticket)
            if not self.over and reply.body[:1] == b"\x01":
                self.settle()
        return self.over

    def settle_within(self, seconds: float) -> bool:
        """As settle(), but gives up once so much virtual time has passed."""
        connection = self._calls.connection
        left = int(seconds * 1e9)
        nap = FIRST_NAP_NS
        while not self.poll():
            if left <= 0:
                return False
            before = connection.now_ns
            connection.sleep(min(nap, left))
            left -= max(connection.now_ns - before, 1)
            nap *= 2
        return True


class Calls:
    """All calls of this rank that are under way."""

    def __init__(self, connection: Connection, arena: Arena) -> None:
        self.connection = connection
        self.arena = arena
        self.backwards = Backwards()
        self._open: dict[int, Call] = {}
        self._abandoned: list[Call] = []

    def posted(self, call: Call) -> None:
        self._open[call.ticket] = call

    def forget(self, call: Call, block: tuple[int, int]) -> None:
        self._open.pop(call.ticket, None)
        self.arena.give_back(*block)
        if self._abandoned:
            self._sweep()

    def abandon(self, call: Call) -> None:
        """No work is left to wait for it: its result still comes, some time."""
        if not call.over:
            self._abandoned.append(call)

    def _sweep(self) -> None:
        waiting, self._abandoned = self._abandoned, []
        self._abandoned += [call for call in waiting if not call.poll()]


class VirtualFuture(Future[Any]):  # type: ignore[misc]
    """Of a call: waiting for it, or for what follows from it, asks the coordinator."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def done(self) -> bool:
        if not super().done():
            self.call.poll()
        return bool(super().done())


class Futures:
    """Lets Python code that waits for a future wait for the calls that it follows from instead."""

    def __init__(self) -> None:
        self._calls_of: weakref.WeakKeyDictionary[Any, list[Call]] = weakref.WeakKeyDictionary()
        self._unknown: weakref.WeakSet[VirtualFuture] = weakref.WeakSet()

    def made(self, future: VirtualFuture) -> None:
        self._unknown.add(future)

    def _roots(self, future: Any) -> list[Call]:
        if isinstance(future, VirtualFuture):
            return [future.call]
        known = self._calls_of.get(future)
        if known is not None:
            return known
        # One that C++ made of others: of all that are under way, in the order of their posts.
        return sorted((other.call for other in self._unknown if not other.call.over),
                      key=lambda call: call.ticket)

    def install(self) -> None:
        native = torch._C.Future
        real_wait, real_then, real_done = native.wait, native.then, native.done

        def wait(future: Any) -> Any:
            for call in () if real_done(future) else self._roots(future):
                call.settle()
                if real_done(future):
                    break
            return real_wait(future)

        def then(future: Any, callback: Any) -> Any:
            roots = [] if real_done(future) else self._roots(future)
            child = real_then(future, callback)
            if roots:
                self._calls_of[child] = roots
            return child

        native.wait, native.then = wait, then


FUTURES = Futures()


class Backwards:
    """Futures that C++ takes during a backward.

    The reducer waits for them in C++ once its backward has run, where the coordinator cannot ask this rank for
    its stack, or know that it waits. Callbacks of a backward run in the order in which they were
    queued, and the first call is posted before the reducer queues its own: so that ours comes first,
    and waits, in the coordinator's socket, for every call whose future was taken.
    """

    def __init__(self) -> None:
        self._taken: dict[int, list[Call]] = {}  # By backward.
        self.at_once = 0  # Inside a callback of a backward: the reducer will wait next.

    def take(self, call: Call) -> bool:
        """Returns: whether there is a backward, which then waits for the call."""
        backward = torch._C._current_graph_task_id()
        if backward == -1:
            return False
        if self.at_once:
            _settle_or_raise(call)
            return True
        if backward not in self._taken:
            self._taken[backward] = []
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self._drain(backward))
        self._taken[backward].append(call)
        return True

    def _drain(self, backward: int) -> None:
        for call in self._taken.pop(backward, ()):
            _settle_or_raise(call)

    def install(self) -> None:
        """The first reduction of a static graph is put off into a callback. Under join(), the reducer waits for how many
        ranks are left: by C++ alone, and forever, unless the Python half of the work is kept."""
        reducer: Any = torch._C._distributed_c10d.Reducer
        handed: Any = getattr(reducer, "_set_forward_pass_work_handle", None)
        if handed is not None:
            kept: dict[int, Any] = {}  # By reducer: its last.

            def keep(this: Any, work: Any, use_static_world_size: bool) -> Any:
                kept[id(this)] = work
                return handed(this, work, use_static_world_size)

            reducer._set_forward_pass_work_handle = keep
        real: Any = getattr(reducer, "_delay_all_reduce", None)
        if real is None:
            return

        def delayed(this: Any) -> Any:
            self.at_once += 1
            try:
                return real(this)
            finally:
                self.at_once -= 1

        reducer._delay_all_reduce = delayed


def _settle_or_raise(call: Call) -> None:
    """What fails must not reach C++ as a future: Python can only complete one with a value, and the
    reducer would take the exception for a tensor."""
    call.settle()
    if call.error is not None:
        raise call.error


class VirtualWork(dist.Work):  # type: ignore[misc]
    """What c10d's functions return for one call."""

    def __init__(self, call: Call, calls: Calls, value: Any) -> None:
        super().__init__()
        self.call = call
        self._calls = calls
        self._value = value
        self._future: VirtualFuture | None = None

    def __del__(self) -> None:
        if self._future is None:
            self._calls.abandon(self.call)

    def _ended(self) -> None:
        future = self._future
        if future is None:
            return
        if self.call.error is None:
            future.set_result(self._value)
        else:
            future.set_exception(self.call.error)

    def wait(self, timeout: Any = None) -> bool:
        seconds = seconds_of(timeout)
        if seconds is None:
            self.call.settle()
        elif not self.call.settle_within(seconds):
            raise timed_out(seconds, self.call.what, backend=self.call.backend)
        if self.call.error is not None:
            __tracebackhide__ = True  # pytest shows the line that waits.
            raise self.call.error
        return True

    def is_completed(self) -> bool:
        return self.call.poll()

    def known_end(self) -> tuple[bool, bool]:
        """Whether it is known to be over, and went well: sends no request."""
        return self.call.over, self.call.error is None

    def is_success(self) -> bool:
        return self.call.over and self.call.error is None

    def exception(self) -> Any:
        return self.call.error

    def get_future(self) -> Any:
        if self._future is None:
            self._future = VirtualFuture(self.call)
            if self.call.over:
                self._ended()
            else:
                self.call.on_end = self._ended  # Not earlier: a work that is dropped must be noticed.
                FUTURES.made(self._future)
                if not self._calls.backwards.take(self.call):
                    self._calls.abandon(self.call)
        return self._future

    def result(self) -> Any:
        return self._value

    def source_rank(self) -> int:
        return self.call.source

    _source_rank = source_rank

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()


class DoneWork(dist.Work):  # type: ignore[misc]
    """Of a call that was over before its work was made."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value
        self._future: Future[Any] = Future()
        self._future.set_result(value)

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def known_end(self) -> tuple[bool, bool]:
        return True, True

    def is_success(self) -> bool:
        return True

    def exception(self) -> Any:
        return None

    def get_future(self) -> Any:
        return self._future

    def result(self) -> Any:
        return self._value

    def synchronize(self) -> None:
        pass

    def block_current_stream(self) -> None:
        pass


class ManyWorks(dist.Work):  # type: ignore[misc]
    """Several calls that were asked for as one."""

    def __init__(self, works: Iterable[VirtualWork], value: Any) -> None:
        super().__init__()
        self._works = list(works)
        self._value = value
        self._future: Future[Any] | None = None

    def wait(self, timeout: Any = None) -> bool:
        return all([work.wait(timeout) for work in self._works])

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def known_end(self) -> tuple[bool, bool]:
        ends = [work.known_end() for work in self._works]
        return all(over for over, _ in ends), all(ok for _, ok in ends)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Any:
        return next((work.exception() for work in self._works if work.exception()), None)

    def get_future(self) -> Any:
        if self._future is None:
            parts = [work.get_future() for work in self._works]
            self._future = torch.futures.collect_all(parts).then(lambda _: self._value)
        return self._future

    def result(self) -> Any:
        return self._value

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()
