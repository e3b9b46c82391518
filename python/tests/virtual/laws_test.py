"""What virtual ranks did is judged as what real ones did: the same scripts, the same findings."""
from __future__ import annotations


import pytest
from torch_jobs.caught_test import BROKEN, HEALTHY, LOSSY, MEANT, fits
from virtual_job import SCRIPTS, printed, run_virtual


def options_of(script: str) -> tuple[str, ...]:
    return ("--buffers", MEANT[script]) if script in MEANT else ()


@pytest.mark.parametrize("script", BROKEN)
def test_a_broken_script_is_caught(script: str) -> None:
    ranks, expected = BROKEN[script]
    outcome = run_virtual(SCRIPTS / script, ranks, *options_of(script))
    assert outcome.report is not None
    assert not outcome.ok
    for wanted in expected:
        assert any(fits(finding, wanted) for finding in outcome.report.findings), f"{wanted}\n{outcome.report}"


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("script", HEALTHY)
def test_a_healthy_script_is_silent(script: str, ranks: int) -> None:
    outcome = run_virtual(SCRIPTS / script, ranks)
    assert outcome.found["outcome"] == "ok", outcome.found["wait_for"] + printed(outcome)
    assert outcome.report is not None
    assert outcome.report.ok, str(outcome.report)
    assert sum(law.verdict == "holds" for law in outcome.report.laws) >= 7


@pytest.mark.parametrize("script", LOSSY)
def test_a_lossy_hook_leaves_equal_replicas(script: str) -> None:
    outcome = run_virtual(SCRIPTS / script, 2)
    assert outcome.found["outcome"] == "ok", printed(outcome)
    assert outcome.report is not None
    assert {finding.law for finding in outcome.report.findings} <= {"gradient-mean"}, str(outcome.report)


