"""Models that are wrapped apart and share parameters: each wrapper's backward reduces what the others' have left.

    backward of a   enc.grad = mean(a's)             reduced by a
    backward of b   enc.grad = mean(a's) + b's own   ... for a: a contribution after its last reduction
                    enc.grad = mean(a's + b's)       reduced by b

That is right, and no wrapper's events alone show it. So the windows of such wrappers are not looked at, and the report
says so: what is left is one parameter's digest after each step, and all of them at the ends of a job's phases.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.torch.recorder import say

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper


def look_for_sharing(recorder: Recorder, wrapper: Wrapper) -> None:
    """After a model has been wrapped."""
    own = {id(p): name for name, p in wrapper.trained}
    others = [one for one in recorder.wrapping.of.values() if one is not wrapper and not one.gone
              and any(id(p) in own for _, p in one.trained)]
    if not others or recorder.pen is None:
        return
    name = next(own[id(p)] for _, p in others[0].trained if id(p) in own)
    for one in (wrapper, *others):
        one.shares, one.looks = True, False
        one.gradients.unwatch()
    what = f"gradients of models that are wrapped apart and share parameters, the first of them `{name}`"
    recorder.pen.missed(what)
    say(f"rank {recorder.rank}: not recorded: {what}")
