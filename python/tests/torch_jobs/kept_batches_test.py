"""Batches that are kept, and trained on again in their order."""
from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lockstep
import pytest
import torch
from forked import run_job

from lockstep.torch import kept_batches
from lockstep.torch.kept_batches import KeptBatches


def batches(n: int) -> list[torch.Tensor]:
    return [torch.full((2, 3), float(i)) for i in range(n)]


def text_after(*inputs: Any) -> str:
    kept = KeptBatches()
    for one in inputs:
        kept.forward(one)
    return kept.text()


def test_a_pass_that_comes_again_is_named() -> None:
    kept = batches(3)
    assert text_after(*kept, *kept) == (
        "3 batches of a sampler that shuffles were kept, as a list or itertools.cycle() keeps them, and trained on again 3 times "
        "in one order")
    assert "again 8 times" in text_after(*itertools.islice(itertools.cycle(kept), 11))


def test_a_part_of_a_pass_that_comes_again_is_not_named() -> None:
    kept = batches(3)
    assert text_after(*kept, *kept[:2]) == ""


def test_one_batch_is_no_order() -> None:
    one = torch.zeros(2)
    assert text_after(one, one, one) == ""


def test_batches_that_come_in_another_order_are_shuffled() -> None:
    kept = batches(3)
    assert text_after(*kept, *kept, kept[0], kept[2]) == ""
    assert text_after(*kept, kept[1], kept[2], kept[0], kept[1]) == ""


def test_a_new_batch_among_the_known_ones_is_no_second_pass() -> None:
    kept, new = batches(2), torch.zeros(1)
    assert text_after(*kept, *kept, new, *kept, *kept) == ""
    assert text_after(*kept, *kept, new, *kept, new) == "", "nor is it one of three"


def test_several_forwards_of_one_batch_are_one() -> None:
    kept = batches(2)
    assert "again 2 times" in text_after(*(one for one in kept * 2 for _ in range(3)))


def test_batches_that_the_program_drops_are_not_followed() -> None:
    kept = KeptBatches()
    for i in range(20):
        kept.forward(torch.full((2,), float(i)))  # Some have the place of others in memory.
    assert kept.text() == ""
    again = batches(2)
    for one in again * 3:
        kept.forward(one)
    assert kept.text() == "", "it has given up"


def test_a_program_may_keep_its_first_batch_and_drop_the_others() -> None:
    kept, first = KeptBatches(), torch.zeros(2)
    kept.forward(first)
    for _ in range(20):
        kept.forward(torch.zeros(3))
    again = batches(2)
    for one in again * 3:
        kept.forward(one)
    assert kept.text() == "", "it has given up"


def test_a_tensor_in_the_place_of_another_is_another() -> None:
    kept, held = KeptBatches(), batches(2)
    kept.forward(held[0])
    kept.forward(torch.zeros(7))
    for _ in range(100):
        kept.forward(torch.zeros(7))
    assert kept.text() == ""


def test_a_pass_needs_all_its_tensors() -> None:
    kept, held = KeptBatches(), torch.zeros(2)
    kept.forward(held)
    for size in (7, 7):  # The second takes the first one's place, as soon as that is free.
        kept.forward(torch.zeros(size))
    kept.forward(held)
    kept.forward(torch.zeros(7))
    assert kept.text() == ""


def test_inputs_without_a_tensor_end_the_comparison_of_passes() -> None:
    kept = batches(2)
    assert text_after(*kept, "words", *kept, *kept) == ""


def test_the_first_tensor_of_all_arguments_counts() -> None:
    kept = batches(2)
    calls = [((3, {"x": one, "y": torch.zeros(1)}), {}) for one in kept]
    assert "trained on again 2 times" in text_after(*calls, *calls)


def test_batches_beyond_a_limit_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_batches, "MOST", 3)
    kept = batches(4)
    assert text_after(*kept[:3], *kept[:3]) != ""
    assert text_after(*kept, *kept) == ""


JOB = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
data = TensorDataset(torch.arange(12.0).reshape(12, 1))
wrapped = DistributedDataParallel(torch.nn.Linear(1, 1))
sampler = DistributedSampler(data, {sampler})
last = DistributedSampler(data, shuffle=False)
batches = [batch for batch, in DataLoader(data, batch_size=2, sampler=sampler)]
for batch, in DataLoader(data, batch_size=6, sampler=last):
    pass
wrapped.train({trains})
for batch in batches * 3:
    wrapped(batch).sum().backward()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("sampler", "trains", "kept"), [
    ("shuffle=True", True, True), ("shuffle=False", True, False), ("shuffle=True", False, False),
    ("shuffle=True, num_replicas=1, rank=0", True, False)])
def test_only_a_training_on_what_a_sampler_shuffles_for_several_ranks_counts(sampler: str, trains: bool, kept: bool,
                                                                            tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB.format(sampler=sampler, trains=trains))
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    advice = [text for law in lockstep.check(tmp_path / "trace").laws for text in law.advice]
    text = "3 batches of a sampler that shuffles were kept, as a list or itertools.cycle() keeps them, and trained on again 6 times in one order"
    assert [one.split(": ", 2)[2].split(". ")[0] for one in advice if one.startswith("A-batches-kept")] == [text] * kept
    assert sorted(line for line in ran.output.splitlines() if "were kept" in line) == [
        f"lockstep: rank {rank}: {text}" for rank in (0, 1) if kept]


def test_kept_batches_are_reported_on_stderr_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    batches_kept = SimpleNamespace(kept=SimpleNamespace(text=lambda: "as it says"), shuffles=True)
    recorder: Any = SimpleNamespace(pen=None, rank=3, batches=batches_kept, before_end=[])
    kept_batches.install(recorder)
    (write,) = recorder.before_end
    write()
    assert capsys.readouterr().err == "lockstep: rank 3: as it says\n"
