"""The rows that forwards are given, and their losses compare with, by what they hold."""
from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from forked import run_job
from lockstep.torch import input_rows

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x, y=None):
        return self.layer(x) if y is None else self.layer(x) + y


dist.init_process_group("gloo")
ddp = DistributedDataParallel(Net())
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
y = torch.tensor([[5.0, 6.0], [7.0, 8.0]])
{steps}
dist.destroy_process_group()
'''
MASK = (1 << 64) - 1


def mix(z: int) -> int:
    """SplitMix64's finaliser."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def digest(*row: float) -> str:
    """Of the bytes of a row, eight at a time."""
    data = struct.pack(f"<{len(row)}f", *row)
    value = len(data)
    for at in range(0, len(data), 8):
        value = mix(value ^ int.from_bytes(data[at:at + 8], "little"))
    return f"{value:016x}"


def inputs(steps: str, scratch: Path, budget: float = 0.0) -> list[dict[str, Any]]:
    """What rank 0 records of them."""
    script = scratch / "job.py"
    script.write_text(JOB.replace("{steps}", steps))
    ran = run_job(script, 2, scratch / "trace", scratch, budget)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (scratch / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines[1:]) if event["kind"] == "input"]


def test_each_row_of_each_argument_has_the_digest_of_its_elements(tmp_path: Path) -> None:
    seen = inputs("ddp(x, y=y[:, :1]).sum().backward()\nddp(x[1:]).sum().backward()", tmp_path)
    assert [event["argument"] for event in seen] == ["1", "2", "1"]
    assert seen[0]["rows"] == [digest(1, 2), digest(3, 4)] and seen[0]["n_elems"] == 2 and seen[0]["dtype"] == "f32"
    assert seen[1]["rows"] == [digest(5), digest(7)] and seen[1]["n_elems"] == 1, "rows of a view"
    assert seen[2]["rows"] == [digest(3, 4)]
    assert [event["at"][:3] for event in seen] == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_what_a_loss_compares_with_is_its_target(tmp_path: Path) -> None:
    seen = inputs("nn.functional.mse_loss(ddp(x), y).backward()\n(nn.functional.mse_loss(ddp(x), y) / 2).backward()", tmp_path)
    assert [event["argument"] for event in seen] == ["1", "target", "1", "target"]
    assert seen[1]["rows"] == seen[3]["rows"] == [digest(5, 6), digest(7, 8)]


def test_targets_of_one_number_each_and_labels_are_left_out(tmp_path: Path) -> None:
    seen = inputs("nn.functional.mse_loss(ddp(x)[:, :1], y[:, :1]).backward()\n"
                  "nn.functional.cross_entropy(ddp(x).unsqueeze(2).expand(2, 2, 3), torch.tensor([[0, 1, 0], [1, 0, 1]])).backward()", tmp_path)
    assert [event["argument"] for event in seen] == ["1", "1"]


def test_scalars_are_left_out(tmp_path: Path) -> None:
    seen = inputs("ddp(x, torch.tensor(1.0)).sum().backward()", tmp_path)
    assert [event["argument"] for event in seen] == ["1"]


def test_forwards_that_do_not_train_and_inputs_that_need_a_gradient_are_left_out(tmp_path: Path) -> None:
    seen = inputs("with torch.no_grad():\n    ddp(x)\nddp.eval()\nnn.functional.mse_loss(ddp(x), y).backward()\nddp.train()\n"
                  "ddp(x.requires_grad_(), y).sum().backward()", tmp_path)
    assert [(event["argument"], event["rows"]) for event in seen] == [("2", [digest(5, 6), digest(7, 8)])]


def test_after_a_thousand_rows_nothing_more_is_recorded(tmp_path: Path) -> None:
    seen = inputs("for n in (1000, 1100, 1):\n    ddp(torch.zeros(n, 2), torch.zeros(n // 10 + 1, 1)[:1]).sum().backward()", tmp_path)
    assert [(event["argument"], len(event["rows"])) for event in seen] == [
        ("1", 1000), ("2", 1), ("1", input_rows.MOST_ROWS), ("2", 1), ("2", 1)]


def test_input_rows_are_not_recorded_under_a_budget(tmp_path: Path) -> None:
    assert not inputs("ddp(x).sum().backward()", tmp_path, budget=0.5)


@pytest.mark.parametrize(("rank", "records"), [(input_rows.MOST_RANKS - 1, True), (input_rows.MOST_RANKS, False)])
def test_only_the_first_ranks_record_input_rows(rank: int, records: bool) -> None:
    import torch

    class Pen:
        written = 0

        def input(self, *_: Any) -> None:
            self.written += 1

    class Looking:
        budget = 0.0

    class Recorder:
        pen = Pen()
        looking = Looking()

    recorder = Recorder()
    setattr(recorder, "rank", rank)
    rows: Any = input_rows.InputRows(recorder, 0)  # type: ignore[arg-type]
    rows.write([torch.zeros(2, 2)], True)
    assert recorder.pen.written == records


def test_after_that_many_bytes_no_more_of_an_argument_is_copied() -> None:
    import torch

    written = []

    class Recorder:
        rank = 0
        looking = type("Looking", (), {"budget": 0.0})
        pen = type("Pen", (), {"input": lambda self, wrapper, name, values, n: written.append(name)})()

    rows: Any = input_rows.InputRows(Recorder(), 0)  # type: ignore[arg-type]
    large = torch.zeros(2, input_rows.MOST_BYTES // 8)
    for _ in range(2):
        rows.write([large, torch.zeros(1, 1)], True)
    assert written == ["1", "2", "2"]


@pytest.mark.parametrize("captures", [False, True])
def test_nothing_is_copied_while_a_graph_is_captured(captures: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: captures)
    written = []

    class OnGpu:
        is_cuda, requires_grad, nbytes = True, False, 8
        dim, detach, cpu = (lambda self: 1), (lambda self: self), (lambda self: self)
        __len__, __getitem__ = (lambda self: 2), (lambda self, _: self)

    class Recorder:
        rank = 0
        looking = type("Looking", (), {"budget": 0.0})
        pen = type("Pen", (), {"input": lambda self, wrapper, name, values, n: written.append(n)})()

    rows: Any = input_rows.InputRows(Recorder(), 0)  # type: ignore[arg-type]
    rows._write("1", OnGpu())
    assert written == ([] if captures else [2])
