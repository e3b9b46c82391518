"""Random numbers: which states are recorded, and that looking at them changes none."""
from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import lockstep
import numpy
import pytest
import torch
from forked import SCRIPTS, run_job
from lockstep.torch import streams

JOB = '''
import hashlib, random
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

class Data(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.rand(4) + np.random.rand() + random.random()

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank), np.random.seed(rank), random.seed(rank)
model = DistributedDataParallel({model})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Data(), batch_size=2, sampler=DistributedSampler(Data()), num_workers={workers},
                    persistent_workers={persistent})
seen = []
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for x in loader:
        optimizer.zero_grad()
        out = model(x)
        out.sum().backward()
        optimizer.step()
        seen += [x, out.detach()]
seen += list(model.state_dict().values()) + [torch.rand(8), torch.tensor([np.random.rand(), random.random()])]
print("rank", rank, hashlib.sha256(b"".join(t.numpy().tobytes() for t in seen)).hexdigest(), flush=True)
'''
PLAIN = "nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))"
ATTENTION = "nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.25), nn.Linear(4, 1))"
LOADERS = [(0, False), (2, False), (2, True)]


def write_job(scratch: Path, workers: int, persistent: bool, model: str = PLAIN) -> Path:
    script = scratch / "job.py"
    script.write_text(JOB.replace("{workers}", str(workers)).replace("{persistent}", str(persistent))
                      .replace("{model}", model))
    return script


def drawn(folder: Path) -> list[dict[str, Any]]:
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event.get("kind") == "rng"]


@pytest.mark.parametrize(("workers", "persistent"), LOADERS)
def test_a_recorded_job_draws_what_an_unrecorded_one_draws(workers: int, persistent: bool, tmp_path: Path) -> None:
    script = write_job(tmp_path, workers, persistent)
    recorded = run_job(script, 2, tmp_path / "trace", tmp_path)
    plain = run_job(script, 2, None, tmp_path)
    assert recorded.codes == plain.codes == [0, 0], recorded.output
    digests = [sorted(line for line in ran.output.splitlines() if line.startswith("rank "))
               for ran in (recorded, plain)]
    assert digests[0] == digests[1] and len(digests[0]) == 2


@pytest.mark.parametrize(("workers", "persistent"), LOADERS)
def test_each_stream_is_recorded_once_a_pass_and_worker(workers: int, persistent: bool, tmp_path: Path) -> None:
    ran = run_job(write_job(tmp_path, workers, persistent), 2, tmp_path / "trace", tmp_path)
    assert ran.troubles == [] and ran.codes == [0, 0], ran.output
    found = Counter((event["rank"], event["at"][5], event["worker"], event["stream"])
                    for event in drawn(tmp_path / "trace"))
    numbers = range(workers) if workers else [-1]
    expected = {(rank, epoch, worker, f"data set, {name}") for rank in (0, 1) for epoch in range(3)
                for worker in numbers for name in ("torch", "numpy.random", "random")}
    expected |= {(rank, epoch, -1, "dropout") for rank in (0, 1) for epoch in range(3)}
    assert set(found) == expected and set(found.values()) == {1}
    assert lockstep.check(tmp_path / "trace").ok


def test_two_recordings_of_a_job_have_their_draws_in_one_order(tmp_path: Path) -> None:
    script = write_job(tmp_path, 2, False)
    found = []
    for name in ("first", "second"):
        run_job(script, 2, tmp_path / name, tmp_path)
        found.append([{key: value for key, value in event.items() if key not in ("t", "i")}
                      for event in drawn(tmp_path / name)])
    assert found[0] == found[1] != []


def test_a_dropout_inside_a_layer_is_seen(tmp_path: Path) -> None:
    run_job(write_job(tmp_path, 0, False, ATTENTION), 2, tmp_path / "trace", tmp_path)
    assert sum(event["stream"] == "dropout" for event in drawn(tmp_path / "trace")) == 6


@pytest.mark.parametrize("model", ["nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 1))",
                                   "nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5).eval(), nn.Linear(4, 1))"])
def test_a_dropout_that_draws_nothing_is_not_recorded(model: str, tmp_path: Path) -> None:
    run_job(write_job(tmp_path, 0, False, model), 2, tmp_path / "trace", tmp_path)
    assert not [event for event in drawn(tmp_path / "trace") if event["stream"] == "dropout"]


def test_groups_that_share_out_a_model_may_draw_alike(tmp_path: Path) -> None:
    """Ranks 0 and 1 hold one replica, 2 and 3 another: only replicas must differ."""
    script = tmp_path / "job.py"
    text = (SCRIPTS / "same_dropout.py").read_text()
    text = text.replace("    torch.manual_seed(7)\n", "    groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]\n"
                        "    torch.manual_seed(7)\n")
    text = text.replace("nn.Linear(16, 1)))", "nn.Linear(16, 1)), process_group=groups[dist.get_rank() % 2])\n"
                        "    torch.manual_seed(100 + dist.get_rank() // 2)")
    script.write_text(text)
    ran = run_job(script, 4, tmp_path / "trace", tmp_path)
    assert ran.codes == [0] * 4, ran.output
    assert len({event["state"] for event in drawn(tmp_path / "trace")}) == 6, "two states an epoch"
    assert [finding for finding in lockstep.check(tmp_path / "trace").findings if finding.law == "rng-scopes"] == []
    script.write_text(text.replace("100 + dist.get_rank() // 2", "100"))
    run_job(script, 4, tmp_path / "again", tmp_path)
    [finding] = [one for one in lockstep.check(tmp_path / "again").findings if one.law == "rng-scopes"][:1]
    assert finding.cause == "rng-same-dropout" and set(finding.ranks) in ({0, 2}, {1, 3})


@pytest.mark.parametrize("source", [streams._Python(), streams._NumPy(numpy), streams._Torch()], ids=lambda s: s.name)
def test_a_state_that_was_drawn_to_is_told_from_one_that_was_set(source: Any) -> None:
    def seed(number: int) -> None:
        random.seed(number), numpy.random.seed(number), torch.manual_seed(number)

    def draw(count: int) -> None:
        numpy.random.rand(count), [random.random() for _ in range(count)], torch.rand(count)

    for already, count in [(0, 1), (1, 1), (311, 1), (312, 1), (313, 700), (5, 100_000)]:
        seed(7)
        draw(already)
        before = source.state()
        draw(count)
        after = source.state()
        assert source.changed(before, after) and source.drew(before, after), (already, count)
        seed(8)
        draw(count)
        assert source.changed(before, source.state()) and not source.drew(before, source.state())


def test_what_a_worker_drew_is_written_with_its_batch_however_early_it_says_so() -> None:
    class Iterator:
        def __init__(self) -> None:
            self._num_workers, self._num_yielded, self._lockstep_loader = 2, 0, 1

    class Recorder:
        pass

    drawn = streams.Streams(Recorder())  # type: ignore[arg-type]
    try:
        # Batches 0 and 2 are worker 0's, 1 and 3 worker 1's. Both are far ahead.
        for nth, worker in ((1, 1), (0, 1), (1, 0), (0, 0)):
            os.write(drawn._writer, f"1\t{nth}\t{worker}\tnoise\t{'0' * 31}{nth}\n".encode())
        handed, loader = [], Iterator()
        for _ in range(4):
            loader._num_yielded += 1
            handed.append([(draw.nth, draw.worker) for draw in drawn.handed(loader)])
        assert handed == [[(0, 0)], [(0, 1)], [(1, 0)], [(1, 1)]]
    finally:
        drawn.close()
