"""Faults: planned by a flag they are named with their rank, written into scripts they are caught."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from torch_jobs.caught_test import BROKEN
from virtual_job import SCRIPTS, printed, run_virtual

CALL = 7  # An all_reduce of a backward.
KILL_MATRIX = Path(__file__).resolve().parents[3] / "scenarios" / "kill_matrix"
# The scenarios whose script has another name: laws_test.py runs all of these scripts as virtual ranks.
OTHER_NAMES = {"learning_rate_per_rank": "wrong_lr", "raw_module": "bypass"}


@dataclass(frozen=True)
class Named:
    outcome: str
    word: str  # Of the fault, as the run names it.
    law: str = ""
    law_names_rank: bool = False
    amount: str = ""


FAULTS = {
    "drop": Named("deadlock", "lose", "progress"),
    "double": Named("ok", "duplicate", "gradient-mean", True),
    "corrupt": Named("ok", "corrupt", "gradient-mean", amount=":30"),
    "stale": Named("ok", "stale", "gradient-mean"),
    "exception": Named("failed", "exception"),
    "kill": Named("failed", "sigkill", "progress"),
    "hang": Named("deadlock", "hang", "progress", True),
    # A rank that comes late breaks nothing.
    "late": Named("ok", "late"),
    "delay": Named("ok", "delay"),
    "slow": Named("ok", "slow"),
}


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_planned_fault_is_named_with_its_rank(kind: str, rank: int) -> None:
    named = FAULTS[kind]
    outcome = run_virtual(SCRIPTS / "clean.py", 3, "--fault", f"{kind}:{rank}:{CALL}{named.amount}")
    found = outcome.found
    assert found["outcome"] == named.outcome, printed(outcome)
    assert len(found["struck"]) == 1
    assert found["struck"][0].startswith(f"rank {rank}: {named.word}"), found["struck"]
    if named.outcome == "failed":
        assert found["first_failure"] == rank and f"rank {rank}" in found["error"]
    if named.outcome == "deadlock":
        assert found["missing"] == [rank]
    assert outcome.report is not None
    findings = [finding for finding in outcome.report.findings if finding.law == named.law]
    assert bool(findings) == bool(named.law), str(outcome.report)
    if named.law_names_rank:
        assert all(finding.ranks == (rank,) for finding in findings), str(outcome.report)
    assert outcome.ok == (not named.law and named.outcome == "ok"), str(outcome.report)


def test_every_fault_of_the_kill_matrix_has_a_script_that_is_caught() -> None:
    names = {path.stem for path in KILL_MATRIX.glob("*.toml")}
    assert len(names) == 14
    assert {f"{OTHER_NAMES.get(name, name)}.py" for name in names} <= BROKEN.keys()
