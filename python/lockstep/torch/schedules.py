"""The seam to schedules of learning rates: how many steps each was planned for, and how many it has made.

Class patch: the constructor of all schedulers, which says whose rates one moves. How long it is planned is read where
PyTorch's schedulers, the lambdas of a LambdaLR and those that programs write themselves commonly have it.
"""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeGuard
from weakref import WeakKeyDictionary, WeakSet

from torch.optim import lr_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.torch.recorder import Recorder

SEAM = "schedules"
TOTAL, MADE = "schedule.total", "schedule.made"  # As the events of options have them.
_PLANNED = ("total_steps", "T_max", "total_iters", "num_training_steps", "max_steps", "max_iters", "num_steps", "t_total", "total",
            "total_updates")


class Schedules:
    def __init__(self) -> None:
        self._of: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()  # By optimizer.

    def made(self, scheduler: Any) -> None:
        """A scheduler begins to move an optimizer's rates. A sequence takes the place of its parts."""
        if isinstance(scheduler, lr_scheduler.SequentialLR):
            self._of[scheduler.optimizer] = WeakSet()
        self._of.setdefault(scheduler.optimizer, WeakSet()).add(scheduler)

    def options_of(self, optimizer: Any) -> dict[str, float]:
        """Of the one scheduler that an optimizer has; nothing where it has several, or one that does not say how long it is."""
        schedulers = self._of.get(optimizer)
        if not schedulers or len(schedulers) > 1:
            return {}
        scheduler = next(iter(schedulers))
        total = _planned(scheduler)
        return {TOTAL: float(total), MADE: float(min(scheduler.last_epoch, total))} if total > 0 else {}


def _planned(scheduler: Any) -> int:
    """The number of steps that a scheduler is planned for; 0: it does not say, or in several ways."""
    if isinstance(scheduler, lr_scheduler.SequentialLR):
        parts: Any = scheduler  # What a sequence consists of is not in PyTorch's types.
        last = _planned(parts._schedulers[-1])
        return int(sum(parts._milestones[-1:])) + last if last else 0
    found: set[int] = {value for name in _PLANNED if _is_count(value := getattr(scheduler, name, None))}
    for function in getattr(scheduler, "lr_lambdas", ()):
        found.update(_named_in(function))
    return found.pop() if len(found) == 1 else 0


def _named_in(function: Any) -> Iterator[int]:
    """Counts that a function has by one of the names: as an argument given ahead, from around it, or of its module."""
    if isinstance(function, functools.partial):
        yield from (function.keywords[name] for name in _PLANNED if _is_count(function.keywords.get(name)))
        return
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        value = _content_of(cell)
        if name in _PLANNED and _is_count(value):
            yield value
    for name in code.co_names:
        value = function.__globals__.get(name)
        if name in _PLANNED and _is_count(value):
            yield value


def _content_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # Of a name that has no value yet, or none any more.
        return None


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def install(recorder: Recorder) -> None:
    schedules = recorder.schedules = Schedules()

    def make(real: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            real(self, *args, **kwargs)
            recorder.quietly(SEAM, lambda: schedules.made(self))
        return init

    every = getattr(lr_scheduler, "LRScheduler", None) or lr_scheduler._LRScheduler
    for owner in (every, lr_scheduler.SequentialLR):  # A sequence does not call the constructor of all.
        recorder.patches.wrap(owner, "__init__", make)
