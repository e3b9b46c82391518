"""Windows that leave only their samples and the number of their calls in the trace, to keep a budget.

While one runs, the busiest seams do no more than count, and no seam is taken out: where the window
turns out to be unlike the others - an evaluation, a new pass over the data, a step that a scaler skips, a
call that does not return - recording goes on at once. Calls that a program makes by itself are always
recorded. Only a job with one wrapper has such windows.
"""
from __future__ import annotations

from collections import deque
from threading import RLock
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from lockstep.torch.batches import Passed
    from lockstep.torch.groups import Calls
    from lockstep.torch.patches import Switch
    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper


MOST_TICKS = 5  # Seconds: what watches the files of a job takes long silence for a standstill.


class LeftOut:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.now = False  # Such a window is running.
        self.batches: deque[tuple[int, int, int, Passed]] = deque()  # Where forwards stood that consumed them.
        self.switches: list[Switch] = []  # What need not be looked at meanwhile.
        self.optimizer: Any = None  # The one that steps the wrapper's parameters, and nothing else's.
        self._wrapper: Wrapper | None = None
        self._epoch = -1  # In which no stream of the wrapper needs a look.
        self._calls: Calls | None = None
        self.lock = RLock()  # Of what is counted: the watching thread ends windows, too.
        self.overdue = False  # Nothing has been written for so long that it is time for it.
        self._seen: tuple[int, int, int] | None = None
        self._n_ticks = 0

    def begin(self, wrapper: Wrapper) -> None:
        """A window begins, which is left out if it may be."""
        recorder, exchanges = self.recorder, self.recorder.exchanges
        calls = recorder.groups.calls_of(wrapper.group)
        alone = sum(not one.gone for one in recorder.wrapping.all) == 1
        busy = exchanges is not None and exchanges.busy
        if not alone or busy or calls is None or not calls.n_own or not wrapper.may_be_left_out():
            return
        self._n_ticks, self.overdue = 0, False
        self._epoch = -1
        recorder.current = wrapper.place
        self._wrapper, self._calls, self.now = wrapper, calls, True
        for switch in self.switches:
            switch.turn(False)

    # -- while one runs

    def forwards(self, ddp: Any, wrapper: Wrapper) -> bool:
        """A forward of the wrapper begins. Returns: whether it is like the others; if not, recording
        goes on."""
        with self.lock:
            if not self.now:
                return False
            if wrapper is not self._wrapper or not self._is_like_others(wrapper):
                self.end()
                return False
            place = wrapper.place
            wrapper.reduces = bool(ddp.require_backward_grad_sync)
            if wrapper.reduces and not wrapper.awaits:
                place.sync += 1
                wrapper.awaits = True
            place.micro += 1
            self.recorder.moved(place)
            passed = self.recorder.batches.pass_by()
            if passed is not None:
                self.batches.append((place.sync, place.micro, place.opt, passed))
            return True

    def _is_like_others(self, wrapper: Wrapper) -> bool:
        recorder, module = self.recorder, wrapper.module()
        if module is None or not module.training or not torch.is_grad_enabled() or not recorder.batches.is_settled():
            return False
        if self._epoch != recorder.epoch:
            if not recorder.streams.is_settled(wrapper):
                return False
            self._epoch = recorder.epoch
        return True

    def backward_over(self) -> None:
        wrapper = self._wrapper
        self.recorder.annotations.batch_given = False
        if wrapper is not None:
            wrapper.awaits = wrapper.awaits and not wrapper.reduces

    def stepped(self, optimizer: Any, wrappers: list[Wrapper]) -> bool:
        """An optimizer has stepped parameters of these wrappers. Returns: whether the window is still left out."""
        with self.lock:
            if not self.now:
                return False
            if len(wrappers) == 1 and wrappers[0] is self._wrapper:
                self.optimizer = optimizer
            for wrapper in wrappers:
                self._step_on(wrapper)
            return True

    def stepped_again(self) -> bool:
        """The same optimizer has."""
        with self.lock:
            wrapper = self._wrapper
            if not self.now or wrapper is None:
                return False
            self._step_on(wrapper)
            return True

    def _step_on(self, wrapper: Wrapper) -> None:
        place = wrapper.place
        place.opt += 1
        place.micro = -1
        self.recorder.moved(place)
        wrapper.step_over()

    # -- when it is over

    def end(self) -> None:
        """Writes what is known of the windows that were left out; recording goes on."""
        with self.lock:
            for switch in self.switches:
                switch.turn(True)
            pen, wrapper = self.recorder.pen, self._wrapper
            while self.batches and pen is not None and wrapper is not None:
                sync, micro, opt, (split, ids, share) = self.batches.popleft()
                ids = ids if share is None else share.ids_of(ids)
                pen.sample_at(wrapper.index, sync, micro, opt, self.recorder.epoch, split, ids)
            if self._calls is not None:
                self._calls.write_left_out()
            self.now, self.optimizer = False, None  # Last: until then the other thread waits for the lock.

    def watch(self) -> None:
        """Once a second, from the watching thread: a window in which nothing has happened since is
        recorded after all, as its call may be one that never returns."""
        wrapper, calls = self._wrapper, self._calls
        if not self.now or wrapper is None or calls is None:
            self._seen = None
            return
        self._n_ticks += 1
        self.overdue = self._n_ticks >= MOST_TICKS
        seen = (calls.n_called, wrapper.place.sync, wrapper.place.opt)
        if seen == self._seen:
            self.end()
        self._seen = seen
