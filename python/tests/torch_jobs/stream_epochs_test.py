"""Streams whose epoch does not reach workers that live on: known by code, by an attribute and by the first batch of each pass."""
from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lockstep
import pytest
import torch
from forked import run_job
from lockstep.torch.stream_epochs import StreamEpochs, epochs_of
from torch.utils.data import IterableDataset, dataloader

NAMES = frozenset({"epoch"})
KIND = dataloader._DatasetKind


class Stream(IterableDataset):  # type: ignore[type-arg]
    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Any:
        return iter(torch.randperm(4, generator=torch.Generator().manual_seed(self.epoch)))


class Installed(Stream):
    __module__ = "torch.utils.data"


@pytest.mark.parametrize(("given", "known"), [
    ({}, True), ({"_dataset_kind": KIND.Map}, False), ({"_persistent_workers": False}, False), ({"_dataset": Installed()}, False)],
    ids=["a stream of the program's own", "no stream", "new workers in each pass", "of a library, which may be set not to shuffle"])
def test_only_an_own_stream_in_workers_that_live_on_is_followed(given: dict[str, Any], known: bool) -> None:
    iterator = SimpleNamespace(**({"_dataset": Stream(), "_dataset_kind": KIND.Iterable, "_persistent_workers": True} | given))
    assert (epochs_of(iterator) is not None) is known


def passes(*given: tuple[Any, list[float]]) -> list[tuple[int, int, bool]]:
    """Of passes with these epochs and first batches: key, order, and whether the epoch has moved."""
    epochs = StreamEpochs(NAMES)
    begun = [epochs.begins(SimpleNamespace(epoch=epoch), {"x": torch.tensor(batch)}) for epoch, batch in given]
    return [(one.key, one.order, one.moved) for one in begun]


def test_a_pass_that_begins_with_the_batch_of_the_one_before_has_its_order() -> None:
    assert passes((0, [1.0, 2.0]), (1, [1.0, 2.0]), (2, [2.0, 1.0])) == [(0, 1, True), (1, 1, True), (2, 2, True)]


def test_a_stream_that_goes_on_after_a_restart_has_the_epoch_that_it_says() -> None:
    assert [key for key, _, _ in passes((7, [1.0]), (8, [2.0]))] == [7, 8]


def test_an_epoch_that_has_not_moved_says_nothing() -> None:
    assert [moved for _, _, moved in passes((0, [1.0]), (0, [1.0]))] == [True, False]
    shared = torch.zeros(())
    assert [moved for _, _, moved in passes((shared, [1.0]), (shared.add_(1), [1.0]))] == [False, False], "or workers see it, too"


def test_epochs_with_several_attributes_have_keys_of_their_own() -> None:
    epochs = StreamEpochs(frozenset({"epoch", "part"}))
    keys = {epochs.begins(SimpleNamespace(epoch=1, part=part), torch.ones(2)).key for part in "ab"}
    assert len(keys) == 2


def test_a_batch_is_kept_as_it_came() -> None:
    epochs, batch = StreamEpochs(NAMES), torch.ones(3)
    first = epochs.begins(SimpleNamespace(epoch=0), batch)
    batch.zero_()
    assert epochs.begins(SimpleNamespace(epoch=1), torch.ones(3)).order == first.order


def test_batches_without_tensors_are_not_alike() -> None:
    epochs = StreamEpochs(NAMES)
    assert len({epochs.begins(SimpleNamespace(epoch=epoch), ["a"]).order for epoch in range(2)}) == 2


JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

dist.init_process_group("gloo")
torch.manual_seed(7)

class Stream(IterableDataset):
    def __init__(self, epoch=0, shuffle=True):
        self.epoch, self.shuffle = epoch, shuffle
    def set_epoch(self, epoch):
        self.epoch = epoch
    def order(self):
        generator = torch.Generator()
        generator.manual_seed(5 + int(self.epoch if self.shuffle else 0))
        return torch.randperm(96, generator=generator)
    def __iter__(self):
        for i in self.order()[dist.get_rank()::2]:
            yield i[None].float() / 96

class Shares(Stream):
    def __init__(self):
        super().__init__(torch.zeros((), dtype=torch.long).share_memory_())
    def set_epoch(self, epoch):
        self.epoch.fill_(epoch)

class Moves(Stream):
    """The workers' copies count their passes by themselves."""
    def __iter__(self):
        yield from super().__iter__()
        self.epoch += 1

class InOrder(Stream):
    """Its epoch is for something else."""
    def order(self):
        return torch.arange(96) + 0 * self.epoch

stream = {stream}
loader = DataLoader(stream, batch_size=6, num_workers={workers}, persistent_workers={persistent})
model = DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(3):
    if {sets}:
        stream.set_epoch(epoch)
    {says}
    for x in loader:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    if {evaluates}:
        stream.set_epoch(10 + epoch)
        with torch.no_grad():
            print(sum(model(x).sum() for x in loader))
dist.destroy_process_group()
'''


def run(scratch: Path, **given: Any) -> tuple[lockstep.Report, list[tuple[str, int]]]:
    """The report, and the epochs of rank 0: split and number."""
    values = {"stream": "Stream()", "workers": 1, "persistent": True, "sets": True, "evaluates": False, "says": ""} | given
    job = JOB
    for key, value in values.items():
        job = job.replace("{" + key + "}", str(value))
    script = scratch / "job.py"
    script.write_text(job)
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0], ran.output
    assert ran.troubles == []
    lines = [json.loads(line) for line in min((scratch / "trace").glob("*.jsonl")).read_text().splitlines()[1:]]
    return lockstep.check(scratch / "trace"), [(one["split"], one["at"][5]) for one in lines if one["kind"] == "epoch"]


def test_an_epoch_that_does_not_reach_workers_that_live_on_is_named(tmp_path: Path) -> None:
    report, epochs = run(tmp_path)
    [finding] = report.findings
    assert (finding.law, finding.cause, finding.epoch) == ("epoch-reshuffled", "persistent-worker-epoch", 1)
    assert epochs == [("train", 0), ("train", 1), ("train", 2)]


@pytest.mark.parametrize("given", [
    {"stream": "Shares()"}, {"stream": "Moves()"}, {"stream": "Stream(shuffle=False)"}, {"stream": "InOrder()"},
    {"sets": False}, {"persistent": False}, {"persistent": False, "workers": 0}],
    ids=["shared", "counted by workers", "not shuffled", "in order", "never set", "new workers", "no workers"])
def test_a_stream_that_its_epoch_reaches_or_need_not_reach_is_no_mistake(given: dict[str, Any], tmp_path: Path) -> None:
    report, _ = run(tmp_path, **given)
    assert report.ok, str(report)


def test_where_the_program_names_its_epochs_no_others_are_written(tmp_path: Path) -> None:
    says = "__import__('lockstep').annotate().epoch(epoch, dataset_size=96, n_replicas=2, per_rank=48)"
    _, epochs = run(tmp_path, stream="Shares()", says=says)
    assert epochs == [("train", 0), ("train", 1), ("train", 2)]


def test_passes_that_evaluate_a_stream_are_no_epochs(tmp_path: Path) -> None:
    _, epochs = run(tmp_path, stream="Shares()", evaluates=True)
    assert epochs == [("train", 0), ("train", 1), ("train", 2)]
