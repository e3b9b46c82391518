"""Jobs of PyTorch on Gloo and the scenarios of the same jobs do the same: bits where bits are promised."""
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from forked import run_job

COMPARED = Path(__file__).resolve().parents[1] / "compared"
sys.path.insert(0, str(COMPARED))
import compare  # noqa: E402

BUILD = Path(os.environ["LOCKSTEP_BUILD"])
EXACT = ("initial tensors", "samples", "epochs", "collectives", "buckets")
STEPS = 3  # The buckets that are made anew are known in the third.


def record(job: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEPS", str(STEPS))
    ran = run_job(COMPARED / f"{job}.py", compare.JOBS[job], scratch / "recorded", scratch)
    assert ran.codes == [0] * compare.JOBS[job] and ran.troubles == [], ran.output
    return scratch / "recorded"


@pytest.mark.parametrize("job", compare.JOBS)
def test_a_recorded_job_and_its_scenario_are_one_job(
        job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record(job, tmp_path, monkeypatch)
    compare.simulate(BUILD, job, tmp_path / "simulated", STEPS)
    rows = compare.compare(recorded, tmp_path / "simulated")
    for part in EXACT:
        assert rows[part].equal, str(rows[part])
    assert len(rows["losses"].apart) == STEPS


CHANGES = {"model.init.seed=6": {"initial tensors"}, "loader.seed=2": {"samples", "epochs"},
           "ddp.first_bucket_bytes=64": {"collectives", "buckets"}, "loader.batch=2": {"samples"}}


def test_another_job_is_told_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record("unused", tmp_path, monkeypatch)
    for number, (change, parts) in enumerate(CHANGES.items()):
        folder = tmp_path / str(number)
        compare.simulate(BUILD, "unused", folder, STEPS, change)
        rows = compare.compare(recorded, folder)
        assert {part for part in EXACT if not rows[part].equal} == parts, change
