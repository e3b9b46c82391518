"""Models that are wrapped apart and share parameters: each wrapper's backward reduces what the others' have left.

    backward of a   enc.grad = mean(a's)             reduced by a, which owns it now
    backward of b   enc.grad = mean(a's) + b's own   of no matter to a, whose reducer waits for no backward
                    enc.grad = mean(a's + b's)       reduced by b, which owns it now: the step uses b's

A backward that none of them will reduce is a matter of all.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.torch.wrapping import Wrapper, Wrapping


def look_for_sharing(wrapping: Wrapping, wrapper: Wrapper) -> None:
    """After a model has been wrapped."""
    own = {id(p) for _, p in wrapper.trained}
    for other in wrapping.of.values():
        if other is wrapper:
            continue
        for number in own & {id(p) for _, p in other.trained}:
            wrapper.shared.setdefault(number, []).append(other)
            other.shared.setdefault(number, []).append(wrapper)


def is_of_another(wrapper: Wrapper, parameter: Any) -> bool:
    """What is added to it now is added by a backward that another wrapper will reduce, and this one will not."""
    others = wrapper.shared.get(id(parameter), ())
    return bool(others) and not wrapper.is_armed() and any(other.is_armed() and not other.gone for other in others)


def take_over(wrapping: Wrapping, wrapper: Wrapper) -> None:
    """A parameter belongs to the wrapper that has reduced it last."""
    owners = wrapping.owners()
    for name, p in wrapper.trained if wrapper.shared else ():
        if owners[id(p)][0] is not wrapper:
            owners[id(p)] = wrapper, name
            wrapping.moves += 1
