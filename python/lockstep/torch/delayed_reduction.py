"""The seam to the one reduction of DistributedDataParallel that a backward may leave out: with a static
graph, the first iteration reduces all buckets at once, when the backward is over. DDP asks for that in
the forward of the wrapper; a program whose backward does not pass there has to do it by itself, and its
gradients stay local if it forgets.

Patch: Reducer._delay_all_reduce.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.distributed import Reducer

from lockstep.torch.recorder import BACKWARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "delayed"


def reduced(recorder: Recorder, reducer: Any) -> None:
    """The reducer has published the averages of its first iteration."""
    for ddp, wrapper in recorder.wrapping.of.items():
        if getattr(ddp, "reducer", None) is reducer:
            wrapper.delayed = False
            if recorder.scope != BACKWARD:  # Else it is recorded at the end of the backward.
                wrapper.gradients.write_reduced()


def install(recorder: Recorder) -> None:
    def make(real: Callable[..., Any]) -> Callable[..., Any]:
        def _delay_all_reduce(self: Any) -> Any:
            result = real(self)
            recorder.quietly(SEAM, lambda: reduced(recorder, self))
            return result
        return _delay_all_reduce

    recorder.patches.wrap(Reducer, "_delay_all_reduce", make)
