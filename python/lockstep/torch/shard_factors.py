"""By what a rank multiplies its shard of gradients that all ranks have reduced, where the program divides the optimizer among
the ranks by itself:

    all gradients  --all_reduce------>  | shard of rank 0 | of rank 1 | ...
                   --reduce_scatter-->  | shard of this rank |
                                        times one factor: clipping, a mean
                                     =  gradient of what this rank's optimizer steps

Shards of one gradient that are multiplied by different factors make another gradient. No patch of its own: groups.py hands
over the calls, clipping.py the factors that it sees, stepping.py says what a step uses. A buffer is read when the step comes:
a small one is kept until then, a large one is not looked at where the program has dropped it.
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import ClipKind, CollectiveOp, ReduceOp
from lockstep.torch.fsdp_parts import FEWEST, MOST_ELEMENTS, MOST_STEPS, factor_between

if TYPE_CHECKING:
    from lockstep.torch.groups import Call
    from lockstep.torch.recorder import Recorder

SEAM = "shard_factors"
MOST_KEPT = 1 << 16  # Elements of a buffer.
MOST_SHARDS = 64  # Since the last step.


class _Shard:
    """The rank's part of what a call has returned."""

    def __init__(self, buffer: torch.Tensor, first: int, n_elements: int) -> None:
        self._kept = buffer if buffer.numel() <= MOST_KEPT else None
        self._buffer = weakref.ref(buffer)
        self._first, self.n_elements = first, n_elements

    def elements(self) -> Any:
        """As they are now; None: the program has dropped them."""
        buffer = self._buffer()
        if buffer is None or not buffer.is_contiguous():
            return None
        return buffer.detach().view(-1)[self._first:self._first + self.n_elements]


class ShardFactors:
    """What has come back since the last step."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._shards: list[_Shard] = []
        self._clipped: dict[int, float] = {}  # Factors of the program's calls, by parameter.
        self._n_steps = 0
        self._step = -1  # Outside of wrappers, in which one that has a factor runs.

    @property
    def waits(self) -> bool:
        return bool(self._shards)

    def posted(self, call: Call) -> None:
        adds = call.reduce in (ReduceOp.SUM, ReduceOp.AVG) and call.calls.number == 0
        if not adds or self._n_steps >= MOST_STEPS or len(self._shards) >= MOST_SHARDS:
            return
        if call.op is CollectiveOp.REDUCE_SCATTER:
            self._shards += [_Shard(one, 0, one.numel()) for one in call.outputs if one.dtype == torch.float32]
        elif call.op is CollectiveOp.ALL_REDUCE:
            self._shards += [self._part_of(one) for one in call.inputs if one.dtype == torch.float32 and self._is_even(one)]

    def _is_even(self, buffer: torch.Tensor) -> bool:
        return bool(buffer.numel() % self.recorder.world == 0)

    def _part_of(self, buffer: torch.Tensor) -> _Shard:
        n_elements = buffer.numel() // self.recorder.world
        return _Shard(buffer, self.recorder.rank * n_elements, n_elements)

    def clipped(self, parameters: list[Any], factor: float) -> None:
        for parameter in parameters if self._shards else ():
            self._clipped[id(parameter)] = self._clipped.get(id(parameter), 1.0) * factor

    def stepping(self, optimizer: Any) -> None:
        """A step is going to use its gradients."""
        if not self._shards:
            return
        shards, self._shards = self._shards, []
        clipped, self._clipped = self._clipped, {}
        used = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if sum(p.numel() for p in used) != sum(shard.n_elements for shard in shards):
            return
        owned = self.recorder.wrapping.owners()
        if any(id(p) in owned or not _is_plain(p.grad) for p in used):
            return
        factor = _factor(shards, used, clipped)
        if factor is None:  # A backward reduces layer by layer, from the last one on.
            factor = _factor(shards[::-1], used, clipped)
        if factor is None or self.recorder.pen is None:
            return
        self._n_steps += 1
        self._step = self.recorder.outside.opt
        self.recorder.pen.clip(-1, ClipKind.PART, 0.0, 2.0, 0.0, factor, self.recorder.pen.layout([]), False, 0.0)

    def stepped(self) -> None:
        """A step is over."""
        self.recorder.count_outside(self._step)
        self._step = -1


def _is_plain(gradient: Any) -> bool:
    """Neither of a model that fully_shard divides nor of another type."""
    return type(gradient) is torch.Tensor and gradient.dtype == torch.float32 and not gradient.is_sparse


def _factor(shards: list[_Shard], used: list[Any], clipped: dict[int, float]) -> float | None:
    """The one number that makes these gradients of the shards; None: there is none, or too little to say so."""
    before = _joined([shard.elements() for shard in shards])
    after = _joined([p.grad.detach().reshape(-1) for p in used])
    if before is None or after is None or before.numel() < FEWEST:
        return None
    factor = factor_between(before.double(), after.double())
    calls = {clipped.get(id(p), 1.0) for p in used}
    if factor is None or not _are_the_same(shards, used):
        return factor
    return factor * calls.pop() if len(calls) == 1 else None  # The buffer has been multiplied, too.


def _joined(parts: list[Any]) -> Any:
    """The first elements of all of them; None: one is missing."""
    if not parts or any(part is None for part in parts):
        return None
    left, firsts = MOST_ELEMENTS, []
    for part in parts:
        firsts.append(part[:left])
        left -= firsts[-1].numel()
    return torch.cat(firsts)


def _are_the_same(shards: list[_Shard], used: list[Any]) -> bool:
    """Whether the first gradient lies where the first shard does."""
    return bool(shards[0].elements().data_ptr() == used[0].grad.data_ptr())


def install(recorder: Recorder) -> None:
    recorder.shard_factors = ShardFactors(recorder)
