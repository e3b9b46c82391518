"""How many steps a schedule of the learning rate was planned for is read from the scheduler, where it says so in one way."""
from __future__ import annotations

import functools
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import SCRIPTS, run_job
from lockstep.torch.schedules import MADE, TOTAL, Schedules
from torch.optim import lr_scheduler

max_iters = 31  # A lambda below has it from its module.


def sgd() -> torch.optim.SGD:
    return torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)


def linearly(step: int, *, num_warmup_steps: int, num_training_steps: int) -> float:
    return min(1.0, step / num_warmup_steps) * (1.0 - step / num_training_steps)


def around_nothing() -> Callable[[int], float]:
    total_steps = 7

    def decay(step: int) -> float:
        return 0.9 ** step if step >= 0 else float(total_steps)

    del total_steps
    return decay


def around(total_steps: int) -> Callable[[int], float]:
    return lambda step: 1.0 - step / total_steps


class Decay(lr_scheduler.LambdaLR):
    """A program's own."""

    def __init__(self, optimizer: Any, max_steps: int) -> None:
        self.max_steps = max_steps
        super().__init__(optimizer, lambda step: 0.99 ** step)


PLANNED: dict[str, tuple[Callable[[Any], Any], int]] = {
    "one cycle": (lambda sgd: lr_scheduler.OneCycleLR(sgd, max_lr=0.1, total_steps=24), 24),
    "cosine": (lambda sgd: lr_scheduler.CosineAnnealingLR(sgd, T_max=25), 25),
    "linear": (lambda sgd: lr_scheduler.LinearLR(sgd, total_iters=26), 26),
    "polynomial": (lambda sgd: lr_scheduler.PolynomialLR(sgd, total_iters=27), 27),
    "arguments given ahead": (lambda sgd: lr_scheduler.LambdaLR(sgd, functools.partial(
        linearly, num_warmup_steps=4, num_training_steps=28)), 28),
    "a name around a lambda": (lambda sgd: lr_scheduler.LambdaLR(sgd, around(29)), 29),
    "a name of its module": (lambda sgd: lr_scheduler.LambdaLR(sgd, lambda step: 1 - step / max_iters), 31),
    "a scheduler of the program's": (lambda sgd: Decay(sgd, 30), 30),
    "steps": (lambda sgd: lr_scheduler.StepLR(sgd, 5), 0),
    "restarts": (lambda sgd: lr_scheduler.CosineAnnealingWarmRestarts(sgd, 5), 0),
    "a name without a value": (lambda sgd: lr_scheduler.LambdaLR(sgd, around_nothing()), 0),
    "two lambdas that differ": (lambda sgd: lr_scheduler.LambdaLR(sgd, [around(5), around(6)]), 0),
}


@pytest.mark.parametrize("name", PLANNED)
def test_a_schedule_says_how_long_it_is(name: str) -> None:
    make, total = PLANNED[name]
    schedules, optimizer = Schedules(), sgd()
    if name == "two lambdas that differ":
        optimizer.add_param_group({"params": list(torch.nn.Linear(1, 1).parameters())})
    scheduler = make(optimizer)
    schedules.made(scheduler)
    assert schedules.options_of(optimizer) == ({TOTAL: total, MADE: 0.0} if total else {})
    assert schedules.options_of(sgd()) == {}


def test_steps_are_counted_as_far_as_the_schedule_goes() -> None:
    schedules, optimizer = Schedules(), sgd()
    scheduler = lr_scheduler.LinearLR(optimizer, total_iters=2)
    schedules.made(scheduler)
    made = []
    for _ in range(4):
        made.append(schedules.options_of(optimizer)[MADE])
        optimizer.step()
        scheduler.step()
    assert made == [0.0, 1.0, 2.0, 2.0]


def test_a_sequence_is_as_long_as_its_last_part_goes() -> None:
    schedules, optimizer = Schedules(), sgd()
    parts: list[Any] = [lr_scheduler.LinearLR(optimizer, total_iters=4), lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)]
    for part in parts:
        schedules.made(part)
    sequence = lr_scheduler.SequentialLR(optimizer, parts, milestones=[4])
    schedules.made(sequence)
    assert schedules.options_of(optimizer) == {TOTAL: 24.0, MADE: 0.0}
    optimizer.step()
    sequence.step()
    assert schedules.options_of(optimizer) == {TOTAL: 24.0, MADE: 1.0}


def test_a_sequence_whose_last_part_has_no_end_has_none() -> None:
    schedules, optimizer = Schedules(), sgd()
    parts: list[Any] = [lr_scheduler.LinearLR(optimizer, total_iters=4), lr_scheduler.StepLR(optimizer, 5)]
    sequence = lr_scheduler.SequentialLR(optimizer, parts, milestones=[4])
    schedules.made(sequence)
    assert schedules.options_of(optimizer) == {}


def test_a_sequence_of_one_part_is_as_long_as_that() -> None:
    schedules, optimizer = Schedules(), sgd()
    sequence = lr_scheduler.SequentialLR(optimizer, [lr_scheduler.LinearLR(optimizer, total_iters=4)], milestones=[])
    schedules.made(sequence)
    assert schedules.options_of(optimizer) == {TOTAL: 4.0, MADE: 0.0}


RAISES = """
class Odd(torch.optim.lr_scheduler.StepLR):
    @property
    def max_steps(self):
        raise RuntimeError("not yet")

"""


def test_a_scheduler_that_raises_costs_the_step_nothing_else(tmp_path: Path) -> None:
    text = (SCRIPTS / "wrong_lr.py").read_text()
    made = "def main():\n"
    step = "optimizer.step()\n"
    assert text.count(made) == 1 and step in text
    text = text.replace(made, RAISES + made)
    [line] = [one for one in text.splitlines() if "torch.optim.SGD(" in one]
    indent = line[:len(line) - len(line.lstrip())]
    text = text.replace(line, f"{line}\n{indent}odd = Odd(optimizer, 100)")
    script = tmp_path / "odd.py"
    script.write_text(text)
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    events = [json.loads(one) for one in (tmp_path / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()[1:]]
    steps = [event for event in events if event["kind"] == "step"]
    used = [event for event in events if event["kind"] == "grad" and event["point"] == "used"]
    assert ran.codes == [0, 0] and len(steps) == len(used) > 0, ran.output
    assert any("not yet" in trouble for trouble in ran.troubles)


def test_several_schedulers_report_no_total_length() -> None:
    schedules, optimizer = Schedules(), sgd()
    first = lr_scheduler.LinearLR(optimizer, total_iters=2)
    second = lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    schedules.made(first)
    schedules.made(second)
    assert schedules.options_of(optimizer) == {}
    del first
    gc.collect()  # A scheduler refers to itself.
    assert schedules.options_of(optimizer) == {TOTAL: 5.0, MADE: 0.0}
