"""The seam to the buckets that DDP makes anew once it knows in which order gradients become ready.

Class patch: Reducer._rebuild_buckets, which every forward calls, and which says whether it has made them.
What it made is in DDP's own log from the next forward on, and is read there once.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "buckets"
INDICES = "rebuilt_per_bucket_param_indices"
MOST_LOOKS = 4


class Buckets:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.awaited: dict[int, int] = {}  # Wrappers whose log does not say yet, and looks left.

    def rebuilt(self, reducer: Any) -> None:
        for ddp, wrapper in self.recorder.wrapping.of.items():
            if ddp.reducer is reducer:
                self.awaited[wrapper.index] = MOST_LOOKS

    def look(self, reducer: Any) -> None:
        for ddp, wrapper in list(self.recorder.wrapping.of.items()):
            if ddp.reducer is not reducer or wrapper.index not in self.awaited:
                continue
            said = ddp._get_ddp_logging_data().get(INDICES, "")
            self.awaited[wrapper.index] -= 1
            if said or not self.awaited[wrapper.index]:
                del self.awaited[wrapper.index]
            if said and self.recorder.pen is not None:
                buckets = [[int(index) for index in bucket.split()] for bucket in said.split(",")]
                self.recorder.pen.bucket(wrapper.index, [i for bucket in buckets for i in bucket],
                                         [len(bucket) for bucket in buckets])


def install(recorder: Recorder) -> None:
    buckets = Buckets(recorder)

    def make_rebuild(real: Callable[..., Any]) -> Callable[..., Any]:
        def _rebuild_buckets(self: Any) -> Any:
            result = real(self)
            if result:
                recorder.quietly(SEAM, lambda: buckets.rebuilt(self))
            elif buckets.awaited:
                recorder.quietly(SEAM, lambda: buckets.look(self))
            return result
        return _rebuild_buckets

    switch = recorder.patches.switch(torch.distributed.Reducer, "_rebuild_buckets", make_rebuild)
    if switch is not None:
        recorder.left_out.switches.append(switch)
