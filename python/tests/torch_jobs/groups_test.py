"""When a call of a process group is over, and whether it went well, as far as its work says."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lockstep.torch.groups import Groups


class Pen:
    """Keeps what would be written."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, bool]] = []
        self.deadlines: list[float] = []

    def completed(self, _wrapper: int, ticket: int, ok: bool, deadline: float) -> None:
        self.ended.append((ticket, ok))
        self.deadlines.append(deadline)

    def group_of(self, ticket: int) -> int:
        return {7: 3}[ticket]


def work(over: bool, future: Any) -> Any:
    return SimpleNamespace(is_completed=lambda: over, get_future=lambda: future)


def future_of(error: Exception | None = None, done: bool = True) -> Any:
    future: Any = torch.futures.Future()
    if error is not None:
        future.set_exception(error)
    elif done:
        future.set_result([])
    return future


def groups_with(one: Any) -> tuple[Groups, Pen]:
    pen = Pen()
    recorder: Any = SimpleNamespace(pen=pen, current=SimpleNamespace(wrapper=0))
    groups = Groups(recorder, lambda: None)
    groups.open[7] = one
    return groups, pen


def test_a_rank_that_raised_has_failed_the_calls_whose_futures_hold_an_error() -> None:
    groups, pen = groups_with(work(False, future_of(RuntimeError("Connection closed by peer"))))
    groups.poll()
    assert pen.ended == []  # The work does not say that it is over.
    groups.deadlines = {0: 1.0, 3: 2.5}
    groups.give_up()
    groups.give_up()
    assert pen.ended == [(7, False)] and groups.open == {}
    assert pen.deadlines == [2.5], "of the call's group"


def test_a_call_that_still_runs_is_left_open_when_its_rank_raises() -> None:
    groups, pen = groups_with(work(False, future_of(done=False)))
    groups.give_up()
    assert pen.ended == [] and 7 in groups.open


def test_the_work_of_a_virtual_rank_is_not_asked_for_its_future() -> None:
    def get_future() -> Any:
        raise AssertionError("that would be an event of the program")
    groups, pen = groups_with(SimpleNamespace(known_end=lambda: (False, True), get_future=get_future))
    groups.poll()
    groups.give_up()
    assert pen.ended == [] and 7 in groups.open


@pytest.mark.parametrize(("future", "ok"), [(future_of(), True), (future_of(RuntimeError("reset")), False)],
                         ids=["went well", "failed"])
def test_a_finished_work_has_the_outcome_of_its_future(future: Any, ok: bool) -> None:
    groups, pen = groups_with(work(True, future))
    groups.poll()
    groups.poll()
    assert pen.ended == [(7, ok)] and groups.open == {}


@pytest.mark.parametrize(("error", "ok"), [
    (NotImplementedError(), True), (RuntimeError("ProcessGroup does not support getFuture"), True),
    (RuntimeError("Connection reset"), False)])
def test_a_backend_without_futures_is_taken_at_its_word(error: Exception, ok: bool) -> None:
    def get_future() -> Any:
        raise error
    groups, pen = groups_with(SimpleNamespace(is_completed=lambda: True, get_future=get_future))
    groups.poll()
    assert pen.ended == [(7, ok)]
