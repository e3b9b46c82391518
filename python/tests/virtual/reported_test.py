"""Reported bugs as ordinary scripts on virtual ranks: the findings of real processes; fixed scripts are silent."""
from __future__ import annotations

import pytest
from soaking import SOAK
from torch_jobs.caught_test import fits
from torch_jobs.reported import BROKEN, FOLDER, ROWS, advised
from virtual_job import printed, run_virtual


@pytest.mark.parametrize(("name", "form"), BROKEN)
def test_a_reported_bug_is_caught(name: str, form: tuple[str, ...]) -> None:
    row = ROWS[name]
    outcome = run_virtual(FOLDER / f"{name}.py", row.ranks, arguments=form)
    assert outcome.report is not None
    expected = row.expected(form)
    if expected is None:
        assert outcome.ok is not bool(outcome.report.findings), printed(outcome)
        assert all(row.is_harm(finding) for finding in outcome.report.findings), str(outcome.report)
        assert not row.advice or row.advice in advised(outcome.report)
    else:
        assert not outcome.ok
        assert any(fits(finding, expected) for finding in outcome.report.findings), f"{expected}\n{outcome.report}"


@pytest.mark.parametrize(("name", "form"), BROKEN if SOAK else BROKEN[::3])  # torch_jobs runs all of them.
def test_the_fixed_twin_of_a_reported_bug_is_silent(name: str, form: tuple[str, ...]) -> None:
    row = ROWS[name]
    outcome = run_virtual(FOLDER / f"{name}.py", row.ranks, arguments=("--fixed", *form))
    assert outcome.ok, printed(outcome)
    assert outcome.report is not None
    assert outcome.report.ok, str(outcome.report)
