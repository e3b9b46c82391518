"""How the process ends, whatever ends it: every trace should have an `end`.

A normal end and an exception are seen at exit. A termination signal reaches a thread of ours even while
the program waits inside PyTorch and no Python runs in it. The same thread notes when a collective has
been waited for too long: that note is taken back if the job goes on. Nothing can be written after
SIGKILL or an abort; `lockstep record` adds the missing line.
"""
from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from lockstep import stop_note
from lockstep._core import die_by
from lockstep.enums import EndOutcome, EndReason
from lockstep.exception_text import line_of
from lockstep.lasting import Lasting
from lockstep.torch.sites import site

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from lockstep.torch.recorder import Recorder

SEAM = "ending"
TICK_S = 1.0
STUCK_AFTER_S = 60.0  # LOCKSTEP_STUCK_AFTER overrides it.
WAITING_S = 2.0  # A rank that is terminated after waiting that long was stuck, not merely killed.
_HOOKS = (__name__, "torch.distributed.distributed_c10d")  # PyTorch's says the rank, and calls the one before it.
GRACE_S = 0.3  # For the main thread to run the handler itself.


def finish(recorder: Recorder, outcome: EndOutcome | None = None, detail: str = "",
           reason: EndReason = EndReason.NONE) -> None:
    """Writes the rank's `end`, once. Without an outcome: as the process has gone."""
    pen = recorder.pen
    if pen is None or os.getpid() != recorder.process:
        return
    recorder.quietly(SEAM, recorder.left_out.end)
    recorder.quietly(SEAM, recorder.poll)
    if outcome is None:
        detail = recorder.exception or _running_exception() or _last_exception()
        outcome = EndOutcome.EXCEPTION if detail else EndOutcome.OK
    if outcome is EndOutcome.EXCEPTION:
        recorder.quietly(SEAM, recorder.groups.give_up)
    if outcome is EndOutcome.OK:
        for action in recorder.before_end:
            recorder.quietly(SEAM, action)
    recorder.pen = None
    try:
        pen.end(outcome, detail, reason)
    except Exception as error:
        print(f"lockstep: the end of the trace cannot be written: {error}", file=sys.stderr)
    recorder.groups.open.clear()


def _running_exception() -> str:
    """A child of multiprocessing ends while its exception, or the exit it became, is under way."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        if not error.code:
            return ""
        return _line_of(error.__context__) or f"exit code {error.code}"
    return _line_of(error)


def _line_of(error: BaseException | None) -> str:
    return line_of(error) if error is not None else ""


def _last_exception() -> str:
    """Python notes what ended a program before it calls the hook, which the program may have replaced. What was noted
    while the hook is still ours did not end it: pytest, for one, notes failures of tests."""
    hook = getattr(sys, "excepthook", None)
    if getattr(hook, "__module__", "") in _HOOKS or hasattr(sys, "ps1"):  # At a prompt nothing has ended.
        return ""
    return _line_of(getattr(sys, "last_value", None))


class Watch:
    """The thread that sees signals and waiting."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.main = threading.main_thread().ident
        self.stuck_after = float(os.environ.get("LOCKSTEP_STUCK_AFTER") or STUCK_AFTER_S)
        self.wake, self.waker = os.pipe()
        os.set_blocking(self.waker, False)
        self._oldest = Lasting()  # Ticket.
        self._waited = 0.0  # At the last tick, a second ago at most.
        self._noted = False
        self._thread = threading.Thread(target=self._run, name="lockstep", daemon=True)

    def start(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._listen()
        self._thread.start()

    def _listen(self) -> None:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_term)
        self._exchange_listener(-1, self.waker)  # An event loop may listen already.
        os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        """In a fork, such as a helper that the program ends by a signal: what this process is sent is not the rank's."""
        if signal.getsignal(signal.SIGTERM) == self._on_term:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._exchange_listener(self.waker, -1)

    @staticmethod
    def _exchange_listener(old: int, new: int) -> None:
        previous = signal.set_wakeup_fd(new, warn_on_full_buffer=False)
        if previous != old:
            signal.set_wakeup_fd(previous)

    def _on_term(self, number: int, _frame: FrameType | None) -> None:
        self._terminate(number)

    def _terminate(self, number: int) -> None:
        name = signal.Signals(number).name
        recorder = self.recorder
        law = stop_note.law(recorder.folder)
        if law:
            finish(recorder, EndOutcome.KILLED, stop_note.detail(law), EndReason.LAW_BROKEN)
            die_by(number)
        # Peers that were terminated a moment earlier have failed what this rank was waiting for.
        if max(self._waited, self._waits_for()) >= WAITING_S:
            finish(recorder, EndOutcome.STUCK, f"{name} while waiting{self._where()}")
        elif stop_note.stood_still(recorder.folder):
            finish(recorder, EndOutcome.STUCK, f"{name}{self._where()}, when no rank recorded anything any more")
        else:
            finish(recorder, EndOutcome.KILLED, f"{name}{self._where()}")
        die_by(number)

    def _where(self) -> str:
        frame = sys._current_frames().get(self.main or 0)
        file, line = site(frame)
        return f" at {file}:{line}" if file else ""

    def _waits_for(self) -> float:
        """Seconds since the oldest call that has not completed became the oldest."""
        oldest = min(self.recorder.groups.open, default=None)
        waited = self._oldest.look(oldest)
        return waited if oldest is not None else 0.0

    def _run(self) -> None:
        while self.recorder.pen is not None:
            ready, _, _ = select.select([self.wake], [], [], TICK_S)
            try:
                for number in os.read(self.wake, 64) if ready else b"":
                    self._on_signal(number)
                self._tick()
            except Exception as error:
                self.recorder.trouble(SEAM, error)

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGTERM and signal.getsignal(number) == self._on_term:
            time.sleep(GRACE_S)
            if self.recorder.pen is not None:
                self._terminate(number)

    def _tick(self) -> None:
        recorder, pen = self.recorder, self.recorder.pen
        if pen is None:
            return
        recorder.left_out.watch()
        recorder.poll()
        pen.flush()  # With a budget, steps are not written out by themselves.
        waited = self._waited = self._waits_for()
        if waited < self.stuck_after:
            self._noted = False
        elif not self._noted:
            self._noted = True
            pen.end_for_now(EndOutcome.STUCK, f"waiting for {waited:.0f} s{self._where()}")


def install(recorder: Recorder) -> None:
    real = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        recorder.exception = line_of(error)
        return real(kind, error, trace)

    sys.excepthook = excepthook
    recorder.patches.on_undo(lambda: setattr(sys, "excepthook", real))
    atexit.register(finish, recorder)
    from multiprocessing import parent_process, util
    if parent_process() is not None:  # Such a process skips atexit.
        util.Finalize(None, finish, (recorder,), exitpriority=100)
    Watch(recorder).start()
