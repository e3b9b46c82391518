"""The seam to join contexts: what ranks do whose inputs are used up.

Class patches: DistributedDataParallel._match_all_reduce_for_bwd_pass, which is how such a rank takes part in the others'
backwards, and Join.__exit__, in which it stays for as long as others have inputs. Where nothing but wrappers has joined, the
calls that a rank makes in there answer theirs, and no other call of the program's.
"""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch.nn.parallel import DistributedDataParallel

from lockstep.torch.recorder import JOIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder


def _shadowing(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    """Its places go on as theirs do."""
    def match(self: Any, *args: Any, **kwargs: Any) -> Any:
        wrapper = recorder.wrapping.of.get(self)
        if wrapper is None:
            return real(self, *args, **kwargs)
        wrapper.place.sync += 1
        recorder.moved(wrapper.place)
        try:
            return real(self, *args, **kwargs)
        finally:
            wrapper.place.ahead = True
            wrapper.place.opt += 1  # The others' step. Where states show its lack, laws see them differ.
            recorder.moved(wrapper.place)
    return match


def _leaving(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def __exit__(self: Any, *args: Any, **kwargs: Any) -> Any:
        outer = recorder.scope
        if all(isinstance(one, DistributedDataParallel) for one in getattr(self, "_joinables", (None,))):
            recorder.scope = JOIN
        try:
            return real(self, *args, **kwargs)
        finally:
            recorder.scope = outer
    return __exit__


def install(recorder: Recorder) -> None:
    if hasattr(DistributedDataParallel, "_match_all_reduce_for_bwd_pass"):
        recorder.patches.wrap(DistributedDataParallel, "_match_all_reduce_for_bwd_pass",
                              functools.partial(_shadowing, recorder))
    try:
        from torch.distributed.algorithms.join import Join
    except ImportError:
        return
    recorder.patches.wrap(Join, "__exit__", functools.partial(_leaving, recorder))
