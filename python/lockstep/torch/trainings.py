"""Which training of the program a wrapper belongs to. A test suite or a sweep trains one model after
another; the adversaries of one training are wrapped together, or take turns.
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper


class Trainings:
    """A wrapper begins another training when it is first trained on, if it holds none of the
    parameters that were trained before, and no other wrapper of the present training has been trained
    on since it was made. One that is trained on again after that takes part in the new training."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.now = 0
        self._n_epochs = 0  # Passes over the data of this training.
        self._of: dict[int, int] = {}  # A training by each wrapper's index.
        self._trained: dict[int, weakref.ref[Any]] = {}  # Parameters, by id.
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()  # Optimizers of no wrapper.
        self._n_forwards = 0
        self._made: dict[int, int] = {}  # Training forwards before each wrapper was made.

    def made(self, wrapper: Wrapper) -> None:
        self._made[wrapper.index] = self._n_forwards

    def trained_on(self, wrapper: Wrapper) -> None:
        """A forward begins whose module is in training mode."""
        known = self._of.get(wrapper.index)
        if known is None:
            known = self._of[wrapper.index] = self._training_of(wrapper)
            self._trained.update((id(p), weakref.ref(p)) for p in wrapper.all.values())
            self._go_on(known)
        elif known != self.now:
            self._of[wrapper.index] = self.now
        self._n_forwards += 1

    def stepped_outside(self, optimizer: Any, first: bool) -> None:
        """An optimizer has stepped what no wrapper has. `first`: since a pass over the data has begun. With that, another
        training begins if nothing has been trained before that it steps."""
        if optimizer in self._stepped:
            return
        self._stepped.add(optimizer)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if first and self._trained and not self._known(parameters):
            self._go_on(max(self.now, *self._of.values(), 0) + 1)
        self._trained.update((id(p), weakref.ref(p)) for p in parameters)

    def next_epoch(self) -> int:
        """A pass over the training data begins. Returns: its number in this training."""
        self._n_epochs += 1
        return self._n_epochs - 1

    def _training_of(self, wrapper: Wrapper) -> int:
        peers = [other for other in self.recorder.wrapping.all
                 if self._of.get(other.index) == self.now]
        ended = any(other.place.opt > 0 for other in peers)
        if not ended or self._n_forwards > self._made.get(wrapper.index, 0) or self._shares(wrapper):
            return self.now
        return max(self._of.values()) + 1

    def _shares(self, wrapper: Wrapper) -> bool:
        return self._known(wrapper.all.values())

    def _known(self, parameters: Iterable[Any]) -> bool:
        """Whether some of them have been trained before."""
        known = ((self._trained.get(id(p)), p) for p in parameters)
        return any(place is not None and place() is p for place, p in known)

    def _go_on(self, number: int) -> None:
        if number == self.now:
            return
        recorder, self.now, self._n_epochs = self.recorder, number, 0
        if recorder.pen is not None:
            recorder.pen.training(number)
        recorder.in_epoch(0)
