"""Which training of a program a wrapper belongs to, where no whole job is needed to see it."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from lockstep.torch.trainings import Trainings

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper


@dataclass
class Place:
    opt: int = 0


@dataclass
class Wrapped:
    """As much of a wrapper as counts here: parameters of its own, and steps taken."""

    index: int
    place: Place = field(default_factory=Place)
    all: dict[str, torch.Tensor] = field(default_factory=lambda: {"weight": torch.zeros(1)})


class Program:
    """Wraps, trains and steps; says which training is on."""

    def __init__(self) -> None:
        self.wrapping = self
        self.pen = self
        self.begun: list[int] = []
        self.all: list[Wrapped] = []
        self.trainings = Trainings(cast("Recorder", self))

    def training(self, number: int) -> None:
        self.begun.append(number)

    def in_epoch(self, _epoch: int) -> None:
        pass

    def wrap(self) -> Wrapped:
        self.all.append(Wrapped(len(self.all)))
        self.trainings.made(cast("Wrapper", self.all[-1]))
        return self.all[-1]

    def forward(self, wrapped: Wrapped) -> int:
        self.trainings.trained_on(cast("Wrapper", wrapped))
        return self.trainings.now

    def train(self, wrapped: Wrapped) -> int:
        now = self.forward(wrapped)
        wrapped.place.opt += 1
        return now


def test_a_model_that_is_wrapped_after_steps_begins_another_training() -> None:
    program = Program()
    assert [program.train(program.wrap()) for _ in range(3)] == [0, 1, 2]
    assert program.begun == [1, 2]


def test_models_that_were_wrapped_together_are_trained_together() -> None:
    program = Program()
    first, second = program.wrap(), program.wrap()
    assert [program.train(one) for one in (first, second, first)] == [0, 0, 0]


def test_parameters_that_were_trained_before_go_on_with_their_training() -> None:
    program = Program()
    program.train(first := program.wrap())
    again = program.wrap()
    again.all = dict(first.all)
    assert program.train(again) == 0


def test_a_model_that_is_trained_again_takes_part_in_the_new_training() -> None:
    """So it is over for a third one once that model has stepped in it, whatever the second one did."""
    def third_after(*trained_again: str) -> int:
        program = Program()
        old = program.wrap()
        program.train(old)
        program.forward(program.wrap())  # Without a step of its own.
        for _ in trained_again:
            program.train(old)
        return program.train(program.wrap())

    assert third_after() == 1
    assert third_after("again") == 2


def test_passes_count_anew_in_another_training() -> None:
    program: Any = Program()
    program.train(program.wrap())
    assert [program.trainings.next_epoch() for _ in range(2)] == [0, 1]
    program.train(program.wrap())
    assert program.trainings.next_epoch() == 0
