"""With a budget most windows are not looked at; laws stay right, and the report says what was not seen."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lockstep
import pytest
from forked import SCRIPTS, run_job
from lockstep.torch.budget import ALWAYS, FIRST, Look, Looking

BUDGET = 0.05


def long(script: str, scratch: Path) -> Path:
    """The same script over 20 epochs."""
    text = (SCRIPTS / script).read_text()
    assert "range(3)" in text
    path = scratch / script
    path.write_text(text.replace("range(3)", "range(20)"))
    return path


def looked_at(folder: Path, rank: int = 0) -> list[int]:
    lines = (folder / f"a000.rank-{rank:05}.jsonl").read_text().splitlines()
    events: list[dict[str, Any]] = [json.loads(line) for line in lines[1:]]
    return [event["at"][4] for event in events if event["kind"] == "grad" and event["point"] == "used"]


@pytest.mark.parametrize("script", ["clean.py", "accumulation.py", "gan.py", "clipping.py",
                                    "mixed_precision.py", "find_unused.py", "batch_norm_eval.py"])
def test_a_healthy_job_is_silent_and_the_report_says_what_was_looked_at(script: str, tmp_path: Path) -> None:
    ran = run_job(long(script, tmp_path), 2, tmp_path / "trace", tmp_path, BUDGET)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    report = lockstep.check(tmp_path / "trace")
    assert report.ok, str(report)
    assert any("steps" in note and "were checked in" in note for note in report.notes), report.notes


def test_few_windows_are_looked_at_whole_and_by_all_ranks_alike(tmp_path: Path) -> None:
    ran = run_job(long("clean.py", tmp_path), 2, tmp_path / "trace", tmp_path, BUDGET)
    assert ran.codes == [0, 0], ran.output
    ranks = [looked_at(tmp_path / "trace", rank) for rank in (0, 1)]
    assert len(ranks[0]) < 20  # Of 80 steps.
    assert ranks[0][:3] == ranks[1][:3] == [0, 1, FIRST]
    few, many = sorted(ranks, key=len)
    assert set(few) <= set(many)


@pytest.mark.parametrize(("script", "step"), [("wrong_lr.py", 0), ("clip_one_rank.py", 0),
                                              ("step_skipped_once.py", None)])
def test_a_broken_job_is_still_caught(script: str, step: int | None, tmp_path: Path) -> None:
    run_job(long(script, tmp_path), 2, tmp_path / "trace", tmp_path, BUDGET)
    report = lockstep.check(tmp_path / "trace")
    drifted = [finding for finding in report.findings if finding.law == "replicas-equal"]
    assert drifted and drifted[0].ranks == (1,), str(report)
    assert step is None or drifted[0].step == step


@pytest.mark.parametrize("script", ["local_sgd.py", "post_local_sgd.py"])
def test_ranks_that_train_alone_are_looked_at_in_every_step(script: str, tmp_path: Path) -> None:
    text = (SCRIPTS / script).read_text()
    path = tmp_path / script
    path.write_text(text.replace("range(2)", "range(10)"))
    ran = run_job(path, 2, tmp_path / "trace", tmp_path, BUDGET)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    report = lockstep.check(tmp_path / "trace")
    assert report.ok, str(report)
    assert len(looked_at(tmp_path / "trace")) == 10 * 12, "no average may be missed"


def test_a_divergence_between_two_windows_is_seen_by_the_parameters_that_take_turns(tmp_path: Path) -> None:
    script = long("parameter_nudged.py", tmp_path)
    script.write_text(script.read_text().replace("epoch == 1", "epoch == 6").replace(
        "bias[3] += 0.001", "bias[3] += 1.0"))
    run_job(script, 2, tmp_path / "trace", tmp_path, BUDGET)
    report = lockstep.check(tmp_path / "trace")
    steps = [finding.step for finding in report.findings if finding.law == "replicas-equal"]
    # Four batches an epoch: the first nudge comes after step 24, and four parameters take turns.
    assert steps and min(step for step in steps if step is not None) <= 24 + 4, str(report)


def test_windows_are_those_of_a_power_of_two_and_of_its_multiples() -> None:
    often, seldom = Looking(BUDGET), Looking(BUDGET)
    seldom.every = 4 * FIRST
    pairs = list(zip(range(0, 1000, 3), range(3, 1003, 3)))  # Windows of three forwards.
    wanted = [{now for before, now in pairs if one.wants(before, now) is Look.WHOLE} for one in (often, seldom)]
    assert wanted[1] - {now for now in wanted[1] if now < ALWAYS} <= wanted[0]
    assert len(wanted[0]) == 1000 // FIRST and len(wanted[1]) == 1000 // (4 * FIRST)


def test_without_a_budget_every_window_is_looked_at() -> None:
    looking = Looking()
    assert all(looking.wants(now - 1, now) is Look.WHOLE for now in range(1, 100))
