"""--ranks 1: a script's ranks compute what one rank computes on the same global batches, or the difference is named."""
from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from lockstep.command_line import Usage
from lockstep.virtual import as_one_rank, options
from lockstep.virtual.as_one_rank import Verdict, judge, rounding_of
from lockstep.virtual.step_values import Batch, Seen, Step, global_passes
from virtual_job import ARENA, prepare

# All numbers are small integers and all divisors powers of two: sums are exact.
EXACT = '''
import os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
x = torch.randint(-2, 3, (32, 4)).float()
data = TensorDataset(x, x.sum(1, keepdim=True))
model = nn.Linear(4, 1)
with torch.no_grad():
    for p in model.parameters():
        p.zero_()
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
sampler = DistributedSampler(data, seed=3)
loader = DataLoader(data, batch_size=4, sampler=sampler)
LOSS = nn.functional.mse_loss
for epoch in range(2):
    sampler.set_epoch(epoch)
    for inputs, targets in loader:
        optimizer.zero_grad()
        LOSS(model(inputs), targets).backward()
        optimizer.step()
'''
INEXACT = EXACT.replace("torch.randint(-2, 3, (32, 4)).float()", "torch.randn(32, 4)").replace("p.zero_()", "p.mul_(1)")


def compare(tmp_path: Path, text: str, ranks: int = 2, *given: str) -> as_one_rank.Judgement:
    script = tmp_path / "job.py"
    script.write_text(text)
    prepare()
    _, judgement = as_one_rank.run(options.parse(
        ["--nproc-per-node", str(ranks), *ARENA, "--ranks", "1", "--no-record", *given, str(script)]))
    return judgement


@pytest.mark.parametrize("ranks", [2, 4])
def test_an_exact_job_is_equal_in_every_bit(ranks: int, tmp_path: Path) -> None:
    judgement = compare(tmp_path, EXACT, ranks)
    steps = min(8, 2 * 32 // (4 * ranks))
    # The gradients grow from step to step, and at last need more digits than the type has.
    first = re.fullmatch(rf"{ranks} ranks, {steps} steps: (\d+) of {2 * steps} gradients equal in every bit(.*)", judgement.sentence)
    assert judgement.verdict is Verdict.HOLDS and first is not None, judgement
    assert int(first.group(1)) >= 4
    assert judgement.notes == ()


@pytest.mark.parametrize("loader", [
    "DataLoader(data, batch_size=4, sampler=sampler)",
    "DataLoader(data, batch_size=3, sampler=sampler, num_workers=2, persistent_workers=True)",
    "DataLoader(data, batch_size=8 // world, sampler=sampler)",  # The script divides its batch itself.
    "DataLoader(data, batch_sampler=[list(range(rank, 32, world))[k:k + 4] for k in range(0, 16, 4)])",
])
def test_rounding_is_no_difference_whatever_the_loader(loader: str, tmp_path: Path) -> None:
    text = INEXACT.replace("DataLoader(data, batch_size=4, sampler=sampler)", loader)
    judgement = compare(tmp_path, text)
    assert judgement.verdict is Verdict.HOLDS, judgement


@pytest.mark.parametrize(("before", "after", "says"), [
    # A sum where a mean is meant: the average over two ranks is half of it.
    ("LOSS = nn.functional.mse_loss", "LOSS = lambda a, b: nn.functional.mse_loss(a, b, reduction='sum')",
     "all elements are 0.5 times those of one rank"),
    # Divided by the number of ranks once more.
    (".backward()", ".div(world).backward()", "all elements are 0.5 times those of one rank"),
    # Each rank clips its own gradient.
    (".backward()\n", ".backward()\n        for p in model.parameters():\n            p.grad.clamp_(-1e-3 * world, 1e-3 * world)\n",
     "differ from one in"),
    # The ranks' gradients are not averaged.
    ("        LOSS(", "        with model.no_sync():\n            LOSS(", "differ from one in"),
    # Ranks have batches of 6 and 2: a mean of means.
    ("DataLoader(data, batch_size=4, sampler=sampler)",
     "DataLoader(data, batch_sampler=[list(range(16 * rank, 16 * rank + 32))[k:k + (2 if rank else 6)] for k in range(0, 8, 6)][:1])",
     "differ from one in"),
])
def test_a_script_whose_ranks_are_not_one_is_told_where(before: str, after: str, says: str, tmp_path: Path) -> None:
    assert before in INEXACT
    judgement = compare(tmp_path, INEXACT.replace(before, after))
    assert judgement.verdict is Verdict.BROKEN, judgement
    assert says in judgement.sentence, judgement


@pytest.mark.parametrize(("before", "after", "says"), [
    ("nn.Linear(4, 1)\n", "nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5))\n", "a forward draws random numbers, as dropout does"),
    ("nn.Linear(4, 1)\n", "nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))\n", "batch normalisation takes its mean"),
    ("model = DDP(model)\n", "", "no model is wrapped"),
    ("model(inputs)", "model.module(inputs)", "no forward through DistributedDataParallel led to step 0"),
    ("in loader:", "in [(x, x[:, :1])]:", "no loader handed out a batch"),
    ("optimizer.step()", "pass", "no optimizer made a step"),
    ("TensorDataset(x, x.sum(1, keepdim=True))", "[(row + torch.rand(1), row.sum(0, keepdim=True)) for row in x + rank]",
     "has other values as one rank"),
    ("        optimizer.zero_grad()\n", "        assert world > 1, 'one rank is too few'\n        optimizer.zero_grad()\n",
     "as one rank the script fails: rank 0: AssertionError: one rank is too few"),
    ("        optimizer.step()\n", "        taken = globals().get('taken', 0) + 1\n        if taken % (4 // world) == 0:\n            optimizer.step()\n",
     "step 0 takes 2 batches on each rank and 4 batches as one rank: the script divides its micro-steps by the number of ranks"),
    # It takes every other batch, and each as one rank.
    ("        optimizer.step()\n", "        taken = globals().get('taken', 0) + 1\n        if taken % world == 0 or taken == 1:\n            optimizer.step()\n",
     "step 2 takes 2 batches on each rank and batch 2 of "),
    ("loader = DataLoader(data, batch_size=4, sampler=sampler)",
     "class Stream(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        return iter(list(data)[rank::world])\n"
     "loader = DataLoader(Stream(), batch_size=4)", "a loader reads a stream"),
])
def test_what_cannot_be_compared_is_said_in_a_sentence(before: str, after: str, says: str, tmp_path: Path) -> None:
    assert before in INEXACT
    judgement = compare(tmp_path, INEXACT.replace(before, after))
    assert judgement.verdict is Verdict.NOT_CHECKABLE, judgement
    assert says in judgement.sentence, judgement
    assert ("divides its" in says) == ("divides its" in judgement.sentence)


CLOSURE = INEXACT.replace('''        optimizer.zero_grad()
        LOSS(model(inputs), targets).backward()
        optimizer.step()
''', '''        def closure():
            optimizer.zero_grad()
            loss = LOSS(model(inputs), targets)
            loss.backward()
            return loss
        optimizer.step(closure)
''')
EVALUATION = INEXACT + '''
    model.eval()
    with torch.no_grad():
        n = torch.tensor(sum(len(inputs) for inputs, _ in DataLoader(data, batch_size=4, sampler=DistributedSampler(data))))
    dist.all_reduce(n)
    assert n == 32, n
    model.train()
'''


@pytest.mark.parametrize("text", [CLOSURE, EVALUATION])
def test_closures_and_evaluations_between_steps_are_followed(text: str, tmp_path: Path) -> None:
    judgement = compare(tmp_path, text)
    assert text != INEXACT and judgement.verdict is Verdict.HOLDS, judgement
    doubled = compare(tmp_path, text.replace("LOSS = nn.functional.mse_loss", "LOSS = lambda a, b: world * nn.functional.mse_loss(a, b)"))
    assert "all elements are 2 times those of one rank" in doubled.sentence, doubled


def test_each_step_begins_with_the_parameters_that_the_ranks_had(tmp_path: Path) -> None:
    assert "p.mul_(1)" in INEXACT
    judgement = compare(tmp_path, INEXACT.replace("p.mul_(1)", "p.mul_(world)"))
    assert judgement.verdict is Verdict.HOLDS, judgement


def test_a_learning_rate_that_grows_with_the_ranks_is_noted_and_no_fault(tmp_path: Path) -> None:
    judgement = compare(tmp_path, INEXACT.replace("lr=0.125", "lr=0.125 * world"))
    assert judgement.verdict is Verdict.HOLDS, judgement
    assert judgement.notes == ("the learning rate depends on the number of ranks: step 0 has 0.25, and 0.125 as one rank",)


def test_the_job_itself_is_what_it_is_without_a_companion(tmp_path: Path) -> None:
    """What watches changes no bit."""
    from lockstep.virtual import launch
    from virtual_job import run_virtual

    script = tmp_path / "job.py"
    script.write_text(INEXACT)
    run_virtual(script, 2, trace=tmp_path / "plain")
    as_one_rank.run(options.parse(["--nproc-per-node", "2", *ARENA, "--ranks", "1", "--trace", str(tmp_path / "watched"), str(script)]))
    plain, watched = launch.events_of(tmp_path / "plain"), launch.events_of(tmp_path / "watched")
    assert sum(map(len, plain.values())) > 100
    assert plain == watched


@pytest.mark.parametrize(("given", "says"), [
    (["--nproc-per-node", "2", "--ranks", "3"], "--ranks 3: not simulated: the job is compared with one rank"),
    (["--ranks", "1"], "the job has one rank already"),
    (["--nproc-per-node", "2", "--ranks", "1", "--fault", "drop:1:2"], "not simulated together with --fault"),
    (["--nproc-per-node", "2", "--ranks", "1", "--explore", "4"], "not simulated together with --explore"),
])
def test_what_makes_no_sense_together_is_refused(given: list[str], says: str) -> None:
    with pytest.raises(Usage, match=says):
        options.parse([*given, __file__])


# -- the judgement alone
KEY = ("job.py", 7, 0)


def seen(gradient: list[float], ids: list[int], rounding: float = 2.0 ** -24) -> Seen:
    step = Step(gradients={"0:weight": torch.tensor(gradient)}, batches=[(KEY, 0)], rates=[0.1], rounding=rounding, fan_ins=4)
    rows = [bytes([each]) for each in ids]
    return Seen(passes={KEY: [Batch(ids, rows, 4 * len(ids))]}, steps=[step], wrapped=1)


def test_the_bound_is_the_terms_of_a_sum_times_the_roundoff_of_the_largest_gradient() -> None:
    ranks = [seen([1.0, 8.0], [0, 2]), seen([1.0, 8.0], [1, 3])]
    # 16 elements and twice 4 inputs of layers, at most 8 each: 24 x 8 x 2**-24.
    bound = 24 * 8 * 2.0 ** -24
    assert judge(ranks, seen([1.0 + 0.9 * bound, 8.0], [0, 2, 1, 3])).verdict is Verdict.HOLDS
    assert judge(ranks, seen([1.0 + 1.1 * bound, 8.0], [0, 2, 1, 3])).verdict is Verdict.BROKEN
    assert judge(ranks, seen([1.0, 8.0], [0, 2, 1, 3])).sentence == "2 ranks, 1 step: 1 of 1 gradients equal in every bit"
    assert judge(ranks, seen([float("nan"), 8.0], [0, 2, 1, 3])).verdict is Verdict.BROKEN


def test_long_sums_round_by_a_multiple_of_their_root() -> None:
    assert rounding_of(24) == 24
    assert rounding_of(64) == 64
    assert rounding_of(10000) == 800


def test_types_too_coarse_for_a_bound_are_not_judged() -> None:
    ranks = [seen([1.0], [0], 2.0 ** -8), seen([1.0], [1], 2.0 ** -8)]
    assert judge(ranks, seen([1.0], [0, 1], 2.0 ** -8)).verdict is Verdict.HOLDS
    coarse = judge(ranks, seen([1.0], [0, 1], 2.0 ** -7))
    assert coarse.verdict is Verdict.NOT_CHECKABLE and "may round by more than 1 in 16" in coarse.sentence


def test_global_batches_hold_the_samples_of_all_ranks() -> None:
    first, second = seen([1.0], [0, 2]), seen([1.0], [1, 3])
    second.passes[KEY].append(Batch([5], [b"5"], 4))
    assert global_passes([first, second]) == {KEY: [[0, 2, 1, 3], [5]]}
