"""What a loss is called in a trace, what distinguishes weights of classes, and what its backward goes through."""
from __future__ import annotations

import json
import zlib
from pathlib import Path

import torch
from forked import run_job
from lockstep.enums import LossReduction
from lockstep.torch import losses
from torch import nn

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(3)
x = torch.randn(4, 3)
classes = torch.tensor([0, 1, 0, 1])
ones = torch.ones(4, 2)
for loss_of, n_steps in (
    (lambda z: nn.functional.cross_entropy(z, classes, weight=torch.tensor([1.0, 0.25])), 3),
    (lambda z: nn.functional.binary_cross_entropy_with_logits(z, ones, pos_weight=torch.tensor([0.5, 2.0])), 1),
    (lambda z: nn.functional.binary_cross_entropy_with_logits(z, ones, pos_weight=torch.full((4, 2), 0.5)), 1),
    (lambda z: nn.functional.cross_entropy(z, classes), 1),
):
    model = DistributedDataParallel(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(n_steps):
        optimizer.zero_grad()
        loss_of(model(x)).backward()
        optimizer.step()
dist.destroy_process_group()
'''


def with_weights(name: str, weights: list[float]) -> str:
    return f"{name} with class weights #{zlib.crc32(str(weights).encode()):08x}"


def test_the_first_two_losses_of_a_wrapper_have_their_class_weights_in_their_names(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (tmp_path / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    names = [event["function"] for event in map(json.loads, lines) if event.get("kind") == "loss"]
    assert names == [
        with_weights("cross_entropy", [1.0, 0.25]), with_weights("cross_entropy", [1.0, 0.25]), "cross_entropy",
        with_weights("loss", [0.5, 2.0]),
        "loss",  # As many weights as logits: of each sample's own.
        "cross_entropy"]


def test_the_divisor_of_a_mean_is_known_unless_its_terms_have_weights() -> None:
    scores = torch.zeros(4, 3, requires_grad=True)
    classes = torch.tensor([0, 2, -100, 1])
    of = nn.functional
    known = hasattr(scores.sum().grad_fn, "_input_metadata")  # Not in PyTorch 1.13.

    def divisor(loss: torch.Tensor, reduction: LossReduction = LossReduction.MEAN) -> float:
        return losses.denominator_of(loss.grad_fn, reduction)

    assert divisor(of.cross_entropy(scores, classes)) == 3.0
    assert divisor(of.cross_entropy(scores, classes, weight=torch.ones(3))) == 0.0
    assert divisor(of.cross_entropy(scores, classes, reduction="sum"), LossReduction.SUM) == 0.0
    assert divisor(of.mse_loss(scores, torch.ones(4, 3))) == (12.0 if known else 0.0)
    assert divisor(of.binary_cross_entropy_with_logits(scores, torch.ones(4, 3), weight=torch.ones(4, 3))) == 0.0
    assert divisor(of.mse_loss(torch.ones(4, 3), scores)) == 0.0  # The prediction has no graph.


def test_operations_are_those_of_the_whole_graph_each_once() -> None:
    x = torch.ones(2, 3)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    shared = model(x)
    assert losses.operations_of((shared * shared).sum().grad_fn) == "4 parameters: Addmm x2, Mul, Relu, Sum, T x2"
    assert losses.operations_of(None) == ""


def test_a_graph_that_is_too_large_is_not_known() -> None:
    value = torch.ones(1, requires_grad=True)
    for _ in range(losses.MOST_NODES - 1):  # With the leaf's own node as many as may be.
        value = value + 1
    assert losses.operations_of(value.grad_fn) == f"1 parameters: Add x{losses.MOST_NODES - 1}"
    assert losses.operations_of((value + 1).grad_fn) == ""


def test_the_first_four_losses_of_a_wrapper_say_what_their_backward_goes_through(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text('''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(3, 1))
for _ in range(5):
    model(torch.ones(2, 3)).sum().backward()
dist.destroy_process_group()
''')
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (tmp_path / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    graphs = [event.get("graph", "") for event in map(json.loads, lines) if event.get("kind") == "loss"]
    assert graphs == ["2 parameters: Addmm, Sum, T"] * 4 + [""]


def test_a_loss_that_is_divided_says_by_how_much(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text('''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(3, 2))
weight = torch.full((), 3.0, requires_grad=True)
def loss():
    return nn.functional.cross_entropy(model(torch.ones(4, 3)), torch.tensor([0, 1, 0, 1]))
for divided in (lambda: loss(), lambda: loss() / 3, lambda: loss() / torch.tensor(3.0), lambda: loss() / 0.5,
                lambda: loss() * 0.5, lambda: loss() / 3 * 1, lambda: loss() / weight):
    divided().backward()
(loss() / 3).backward(torch.ones(()))
dist.destroy_process_group()
''')
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (tmp_path / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    said = [(event["reduction"], event["denominator"], event["n_terms"])
            for event in map(json.loads, lines) if event.get("kind") == "loss"]
    unknown = ("given", 0, 0)
    assert said == [("mean", 4, 0), ("given", 12, 4), ("given", 12, 4), unknown, unknown, unknown, unknown, unknown]
