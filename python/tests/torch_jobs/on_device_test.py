"""Digests that a GPU computes are those of the host: whole jobs, whose tensors a pen takes for a GPU's.

PyTorch runs on the processor here. The pen is shown each tensor as if it lay on CUDA device 0, and the driver that it
finds is the emulated one of tests/gpu/fingerprint, whose device is the host.
"""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from forked import run_job

DRIVER = Path(os.environ.get("LOCKSTEP_BUILD", Path(__file__).resolve().parents[3] / "build")) / "emulated-driver" / "libcuda.so.1"

JOB = '''
import ctypes, os, types
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import lockstep.torch.recorder as recorder

class OnGpu:
    """A tensor that says that it lies on a GPU."""

    is_cpu, is_cuda, device = False, True, types.SimpleNamespace(index=0)

    def __init__(self, tensor):
        self.tensor = tensor

    def __getattr__(self, name):
        found = getattr(self.tensor, name)
        return (lambda: OnGpu(found())) if name in ("detach", "contiguous") else found

def shown(value):
    if isinstance(value, torch.Tensor):
        return OnGpu(value)
    return [shown(one) for one in value] if isinstance(value, list) else value

class Pen:
    """Shows a pen what it is given as a GPU's."""

    def __init__(self, *arguments, pen=recorder.Pen):
        self._pen = pen(*arguments)

    def __getattr__(self, name):
        found = getattr(self._pen, name)
        if name in ("note", "grads", "states", "found", "look_at_buffers", "replaced", "lone", "data", "digest"):
            return lambda *arguments: found(*[shown(one) for one in arguments])
        return found

{setup}

dist.init_process_group("gloo")
torch.manual_seed(5)
model = DistributedDataParallel(nn.Sequential(
    nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 300), nn.Linear(300, 3)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range({steps}):
    with model.no_sync():
        model(torch.randn(6, 2, 8, 8)).square().mean().backward()
    model(torch.randn(6, 2, 8, 8)).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
'''
DEVICE = f'''
os.environ["EMULATED_DRIVER"] = "eager"
ctypes.CDLL("{DRIVER}")
recorder.Pen, recorder.streams = Pen, lambda: (lambda index: 16)
'''
NO_DRIVER = "recorder.Pen, recorder.streams = Pen, lambda: (lambda index: 16)"
REFUSED = "recorder.Pen, recorder.streams = Pen, lambda: 'this one has no CUDA'"
OLD_DRIVER = DEVICE.replace("eager", "module")
PATIENT = f'''
import threading, time
driver = ctypes.CDLL("{DRIVER}")

def release():
    while True:
        driver.emulated_driver_release()
        time.sleep(0.001)

threading.Thread(target=release, daemon=True).start()
torch.nn.utils.clip_grad_norm_ = lambda *arguments: None
''' + DEVICE.replace("eager", "patient")
LATE = DEVICE.replace("eager", "")


def recorded(scratch: Path, setup: str, steps: int = 4) -> list[list[dict[str, Any]]]:
    """The events of each rank."""
    scratch.mkdir()
    script = scratch / "job.py"
    script.write_text(JOB.replace("{setup}", setup).replace("{steps}", str(steps)))
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0] and not ran.troubles, ran.output
    ranks = []
    for file in sorted((scratch / "trace").glob("*.jsonl")):
        ranks.append([event for line in file.read_text().splitlines() if "kind" in (event := json.loads(line))])
    assert len(ranks) == 2
    return ranks


def with_digests(ranks: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    return [[event for event in rank if "digests" in event] for rank in ranks]


def without_sketches(ranks: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    return [[{key: value for key, value in event.items() if key not in ("t", "i", "sketches")} for event in rank]
            for rank in with_digests(ranks)]


def logs(ranks: list[list[dict[str, Any]]]) -> list[str]:
    return [event["text"] for rank in ranks for event in rank if event["kind"] == "log"
            and not event["text"].startswith("ddp options")]


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    return recorded(tmp_path_factory.mktemp("host") / "job", "")


def test_a_device_gives_the_digests_of_the_host(tmp_path: Path, on_host: list[list[dict[str, Any]]]) -> None:
    on_gpu = recorded(tmp_path / "job", DEVICE)
    assert without_sketches(on_gpu) == without_sketches(on_host)
    assert logs(on_gpu) == []
    compared = 0
    for ours, theirs in zip(with_digests(on_gpu), with_digests(on_host), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            for n, one, other in zip(a.get("n_elems", []), a.get("sketches", []), b.get("sketches", []), strict=False):
                # Two orders of adding n terms differ by at most 2 n roundings of their magnitudes.
                assert one == pytest.approx(other, rel=0, abs=2 * n * 2.0**-53 * other[0])
                compared += 1
    assert compared > 100


def test_what_a_device_computes_too_late_is_noticed(tmp_path: Path, on_host: list[list[dict[str, Any]]]) -> None:
    """The twin: a device that reads gradients when it is waited for, not when it was asked."""
    assert without_sketches(recorded(tmp_path / "job", LATE)) != without_sketches(on_host)


def test_other_threads_go_on_while_a_device_is_waited_for(tmp_path: Path) -> None:
    """A collective that never returns must not stop what watches for it. One step: each event takes a second here."""
    assert len(with_digests(recorded(tmp_path / "job", PATIENT, steps=1))[0]) > 5


def test_what_is_captured_into_a_graph_has_no_values(tmp_path: Path) -> None:
    captured = recorded(tmp_path / "job", DEVICE.replace("eager", "capturing"))
    assert {digest for rank in with_digests(captured) for event in rank for digest in event["digests"]} == {"0" * 16}


@pytest.mark.parametrize(("setup", "reason"), [
    (REFUSED, "this one has no CUDA"),
    (NO_DRIVER, "this process finds no CUDA driver (libcuda.so.1)"),
    (OLD_DRIVER, "the CUDA driver failed in cuModuleLoadData: error 999")])
def test_where_no_device_can_compute_tensors_are_copied_and_the_trace_says_why(
        tmp_path: Path, on_host: list[list[dict[str, Any]]], setup: str, reason: str) -> None:
    copied = recorded(tmp_path / "job", setup)
    assert without_sketches(copied) == without_sketches(on_host)
    assert logs(copied) == [f"digests of tensors on GPUs are computed on the host: {reason}"] * 2


def test_the_variable_asks_for_digests_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.torch import on_device
    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setattr("torch._C._cuda_getCurrentRawStream", lambda index: 3, raising=False)
    found = on_device.streams()
    assert not isinstance(found, str) and found(0) == 3
    monkeypatch.setenv("LOCKSTEP_DIGESTS", "host")
    assert on_device.streams() == "LOCKSTEP_DIGESTS=host"
    monkeypatch.delenv("LOCKSTEP_DIGESTS")
    monkeypatch.setattr("torch.version.cuda", None)
    assert "was built without CUDA" in str(on_device.streams())
