"""Shards of reduced gradients, where a program divides the optimizer by itself: which factor a step is said to have used."""
from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lockstep.enums import ClipKind, CollectiveOp, ReduceOp
from lockstep.torch.recorder import Recorder
from lockstep.torch.shard_factors import MOST_KEPT, ShardFactors

WORLD, RANK = 2, 1


class Job:
    """One rank of two, whose optimizer has the parameters that a test gives it."""

    def __init__(self) -> None:
        self.factors: list[float] = []
        self.owned: dict[int, Any] = {}
        pen = SimpleNamespace(layout=lambda names: len(names), clip=self._clip)
        self.recorder: Any = SimpleNamespace(
            world=WORLD, rank=RANK, pen=pen, outside=SimpleNamespace(opt=0), moved=lambda place: None,
            wrapping=SimpleNamespace(owners=lambda: self.owned))
        self.recorder.count_outside = partial(Recorder.count_outside, self.recorder)
        self.shards = ShardFactors(self.recorder)

    def _clip(self, wrapper: int, kind: ClipKind, _limit: float, _order: float, _norm: float, factor: float, *_: Any) -> None:
        assert (wrapper, kind) == (-1, ClipKind.PART)
        self.factors.append(factor)

    def post(self, op: CollectiveOp, tensor: torch.Tensor, reduce: ReduceOp = ReduceOp.SUM, group: int = 0) -> None:
        call: Any = SimpleNamespace(op=op, reduce=reduce, calls=SimpleNamespace(number=group),
                                    inputs=[tensor], outputs=[tensor])
        self.shards.posted(call)

    def scatter(self, tensor: torch.Tensor, reduce: ReduceOp = ReduceOp.AVG, group: int = 0) -> None:
        self.post(CollectiveOp.REDUCE_SCATTER, tensor, reduce, group)

    def step(self, *gradients: torch.Tensor) -> list[float]:
        """Returns: the factors that are recorded of this step."""
        parameters = [parameter_of(gradient) for gradient in gradients]
        return self.step_of(parameters)

    def step_of(self, parameters: list[Any]) -> list[float]:
        self.factors = []
        optimizer = SimpleNamespace(param_groups=[{"params": parameters}])
        self.shards.stepping(optimizer)
        self.shards.stepped()
        return self.factors


def parameter_of(gradient: torch.Tensor) -> Any:
    parameter = torch.nn.Parameter(torch.zeros(gradient.shape, dtype=gradient.dtype))
    parameter.grad = gradient
    return parameter


def counted(n: int, first: int = 1) -> torch.Tensor:
    return torch.arange(first, first + n, dtype=torch.float32)


@pytest.fixture
def job() -> Job:
    return Job()


def test_a_reduce_scatter_returns_the_shard(job: Job) -> None:
    job.scatter(counted(16))
    assert job.step(counted(16) * 0.25) == [0.25]
    assert job.step(counted(16) * 0.25) == []
    assert job.recorder.outside.opt == 1


def test_an_all_reduce_returns_the_shards_of_all_ranks_in_their_order(job: Job) -> None:
    job.post(CollectiveOp.ALL_REDUCE, counted(32))
    assert job.step(counted(16, 17) * 0.5) == [0.5]
    job.post(CollectiveOp.ALL_REDUCE, counted(32))
    assert job.step(counted(16) * 0.5) == [], "the shard of rank 0"
    job.post(CollectiveOp.ALL_REDUCE, counted(33))
    assert job.step(counted(16, 17) * 0.5) == []


def test_several_shards_are_those_of_several_parameters(job: Job) -> None:
    job.scatter(counted(8))
    job.scatter(counted(8, 9))
    assert job.step(counted(8) * 2, counted(8, 9) * 2) == [2.0]
    job.scatter(counted(16))
    assert job.step(counted(8) * 2, counted(8, 9) * 3) == []


def test_shards_may_come_in_the_order_of_a_backward(job: Job) -> None:
    """From the last parameter to the first, and in no other order."""
    shards = [torch.randn(n, generator=torch.Generator().manual_seed(n)) for n in (16, 24, 32)]
    for order, factors in (((2, 1, 0), [0.5]), ((1, 2, 0), [])):
        for i in order:
            job.scatter(shards[i])
        assert job.step(*(0.5 * shard for shard in shards)) == factors


def test_a_shard_that_is_clipped_in_its_place_has_the_factor_of_the_call(job: Job) -> None:
    for in_place in (True, False):
        gradient = counted(16)
        job.scatter(gradient)
        parameter = parameter_of(gradient if in_place else gradient.clone())
        job.shards.clipped([parameter], 0.5)
        parameter.grad.mul_(0.5)
        assert job.step_of([parameter]) == [0.5]


def test_a_factor_of_an_earlier_step_is_forgotten(job: Job) -> None:
    gradient = counted(16)
    parameter = parameter_of(gradient)
    job.shards.clipped([parameter], 0.25)  # No shard has come.
    job.scatter(gradient)
    assert job.step_of([parameter]) == [1.0]


def test_other_calls_groups_and_types_are_not_looked_at(job: Job) -> None:
    job.scatter(counted(16), ReduceOp.MAX)
    job.scatter(counted(16), group=1)
    job.scatter(counted(16).double())
    job.post(CollectiveOp.ALL_GATHER, counted(32))
    job.post(CollectiveOp.ALL_REDUCE, counted(32).double())
    assert not job.shards.waits
    job.scatter(counted(16))
    assert job.shards.waits
    assert job.step(counted(16).double()) == []


def test_what_a_wrapper_has_says_nothing(job: Job) -> None:
    job.scatter(counted(16))
    parameter = parameter_of(counted(16))
    job.owned = {id(parameter): ()}
    assert job.step_of([parameter]) == []


def test_few_elements_zeros_and_other_sizes_say_nothing(job: Job) -> None:
    for shard, gradient in ((counted(15), counted(15)), (torch.zeros(16), torch.zeros(16)), (counted(16), torch.zeros(16)),
                            (counted(16), counted(17)), (counted(16), counted(16).flip(0))):
        job.scatter(shard)
        assert job.step(gradient) == []


def test_the_first_64_shards_of_a_step_are_kept(job: Job) -> None:
    for n_posted, n_used in ((64, 64), (65, 64)):
        for i in range(n_posted):
            job.scatter(counted(1, i + 1))
        assert job.step(counted(n_used) * 2) == [2.0]


def test_a_buffer_with_gaps_and_a_sparse_gradient_say_nothing(job: Job) -> None:
    job.scatter(counted(32)[::2])
    assert job.step(counted(32)[::2].clone()) == []
    job.scatter(counted(16))
    assert job.step(counted(16).to_sparse()) == []


def test_a_large_buffer_that_the_program_drops_is_let_go(job: Job) -> None:
    kept, dropped = counted(MOST_KEPT), counted(MOST_KEPT + 1)
    job.scatter(kept)
    gradient = kept * 2
    del kept
    assert job.step(gradient) == [2.0]
    job.scatter(dropped)
    assert job.step(dropped * 2) == [2.0]
    job.scatter(dropped)
    gradient = dropped * 2
    del dropped
    assert job.step(gradient) == []


def test_the_first_32_steps_are_looked_at(job: Job) -> None:
    for _ in range(32):
        job.scatter(counted(16))
        assert job.step(counted(16)) == [1.0]
    job.scatter(counted(16))
    assert job.step(counted(16)) == []
