"""Dumps that `lockstep export --flight-recorder` writes, read by PyTorch's own analyzer of them: it names the
call that Lockstep names, by its place, number and kind of error."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import lockstep
import pytest
from forked import SCRIPTS

BUILD = Path(os.environ["LOCKSTEP_BUILD"])
ROOT = SCRIPTS.parents[2]
COMMAND = BUILD / "bin" / "lockstep"


def analysis_of(trace: Path, scratch: Path) -> str:
    """What PyTorch's analyzer prints about the exported trace."""
    subprocess.run([COMMAND, "export", trace, "--flight-recorder", scratch / "dumps"], check=True, capture_output=True)
    ran = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", scratch / "dumps"],
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def simulated(scenario: str, scratch: Path) -> Path:
    subprocess.run([COMMAND, "run", ROOT / "scenarios" / scenario, "--quiet", "--trace", scratch / "trace"], check=False)
    return scratch / "trace"


def number_of(finding: lockstep.Finding) -> int:
    """The Flight Recorder counts a group's calls from 1."""
    assert finding.seq is not None
    return finding.seq + 1


def test_a_recorded_hang_misses_the_same_rank_at_the_same_call(tmp_path: Path) -> None:
    trace = ROOT / "tests" / "golden" / "pytorch_hang"
    [finding] = lockstep.check(trace).findings
    said = analysis_of(trace, tmp_path)
    assert f"Not all ranks joining collective, sequence number: {number_of(finding)}" in said
    missing = re.search(r"missing ranks: \{(.*)\}", said)
    assert missing is not None and missing[1] == ", ".join(map(str, finding.missing))
    assert f"at {finding.site}" in said and "collective: gloo:all_reduce" in said


@pytest.mark.parametrize(("scenario", "field", "error"), [
    ("kill_matrix/shape_differs.toml", "count", "SIZE_OR_SYNTAX_MISMATCH"),
    ("kill_matrix/operation_differs.toml", "op", "COLLECTIVE_TYPE_MISMATCH")])
def test_a_mismatch_is_the_same_call_and_kind(scenario: str, field: str, error: str, tmp_path: Path) -> None:
    trace = simulated(scenario, tmp_path)
    [finding] = [one for one in lockstep.check(trace).findings if one.law == "collectives-match"]
    assert finding.field == field
    said = analysis_of(trace, tmp_path)
    assert f"Collective sequence number: {number_of(finding)} has errors" in said
    assert f"Error type: {error}" in said
    assert f"at {finding.site}" in said or f"at {finding.other_site}" in said


def test_the_analyzer_finds_nothing_in_a_healthy_job(tmp_path: Path) -> None:
    trace = simulated("jobs/digits_cnn.toml", tmp_path)
    assert lockstep.check(trace).ok
    said = analysis_of(trace, tmp_path)
    assert "has errors" not in said and "Not all ranks" not in said
