"""Sums of which a loss is made: what the program divided one of them by. Calls whose results it throws away, and labels that are
places among gathered rows."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import run_job
from lockstep.torch.exchanges import _is_statement
from lockstep.torch.losses import MOST_SUMMANDS, divisor_of_a_sum

X = torch.arange(1.0, 7.0, requires_grad=True)
TARGET = torch.zeros(6)
COUNT = torch.tensor(3.0)
MSE = torch.nn.functional.mse_loss


@pytest.mark.parametrize(("loss", "divisor"), [
    (X.sum() / 3, 3.0),
    (X.sum() / COUNT, 3.0),
    (X.view(2, 3).sum(1).sum() / COUNT, 3.0),
    (MSE(X, TARGET, reduction="sum") / COUNT, 3.0),
    (MSE(X, TARGET) + 5 * (X.sum() / COUNT), 3.0),
    ((X.sum() / COUNT) * 5 + MSE(X, TARGET), 3.0),
    (sum([MSE(X, TARGET), 2 * X.sum() / COUNT]), 3.0),
    (X.sum() / 4 + X.sum() / COUNT, 4.0),  # The first from the left.
    (X.sum(), 0.0),
    (MSE(X, TARGET), 0.0),
    (MSE(X, TARGET) / COUNT, 0.0),  # A mean: losses_test.py.
    (X.sum() * X.mean() / COUNT, 0.0),  # No sum: a product.
    (X.sum() / X.detach().requires_grad_().sum(), 0.0),  # A gradient goes to the divisor.
    (X.sum() / -COUNT, 0.0),
])
def test_the_divisor_of_a_summand_that_is_itself_a_sum_is_found(loss: Any, divisor: float) -> None:
    assert divisor_of_a_sum(loss.grad_fn) == divisor


def test_a_loss_of_many_summands_is_not_searched_to_its_end() -> None:
    def among(n: int) -> Any:
        return sum(MSE(X, TARGET) for _ in range(n)) + X.sum() / COUNT

    assert divisor_of_a_sum(among(10).grad_fn) == 3.0
    assert divisor_of_a_sum(among(MOST_SUMMANDS).grad_fn) == 0.0


def test_a_call_is_a_statement_where_its_value_is_thrown_away() -> None:
    places: list[tuple[Any, int]] = []

    def note(*_: object) -> int:
        frame = sys._getframe(1)
        places.append((frame.f_code, frame.f_lasti))
        return 0

    note()
    note(1, 2)
    kept = note()
    twice = note() + 1
    for _ in range(1):
        note()
    assert [_is_statement(*place) for place in places] == [True, True, False, False, True], (kept, twice)


JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_gather, all_reduce
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(3)
ddp = DistributedDataParallel(nn.Linear(3, 4))
labels = torch.tensor([2, 0])
for _ in range(2):
    own = ddp(torch.randn(2, 3))
    scores = {scores}
    nn.functional.cross_entropy(scores, labels).backward()
dist.destroy_process_group()
'''


def events(scores: str, kind: str, scratch: Path) -> list[dict[str, Any]]:
    """What rank 1 records of this kind."""
    script = scratch / "job.py"
    script.write_text(JOB.replace("{scores}", scores))
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (scratch / "trace" / "a000.rank-00001.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines[1:]) if event["kind"] == kind]


def test_labels_are_recorded_where_the_loss_gathers(tmp_path: Path) -> None:
    seen = events("own @ torch.cat(all_gather(own)).T", "input", tmp_path)
    targets = [event for event in seen if event["argument"] == "target"]
    assert [(event["dtype"], event["n_elems"], len(event["rows"])) for event in targets] == [("i64", 1, 2)] * 2


def test_labels_of_classes_are_not_recorded(tmp_path: Path) -> None:
    assert [event["argument"] for event in events("own", "input", tmp_path)] == ["1", "1"]


@pytest.mark.parametrize(("scores", "dropped"), [("own + all_reduce(own.detach()).mean()", []),
                                                 ("(exec('all_reduce(own.detach())', globals()), own)[1]", [True, True])],
                         ids=["read", "thrown away"])
def test_a_differentiable_call_whose_result_is_thrown_away_is_recorded(scores: str, dropped: list[bool], tmp_path: Path) -> None:
    assert [event["dropped"] for event in events(scores, "exchange", tmp_path) if event["dropped"]] == dropped
