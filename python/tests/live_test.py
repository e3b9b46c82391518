"""Judging traces while they grow: nothing is found that the whole trace does not have, and most of it is
found early. The traces are those of simulated jobs, cut and fed to the judge in pieces."""
from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import lockstep
import pytest
from lockstep import _core, stop_note
from lockstep.live import Judge, identity, law_to_stop_on
from lockstep.trace_completion import reap

BUILD = Path(os.environ["LOCKSTEP_BUILD"])
SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
KILLED = sorted((SCENARIOS / "kill_matrix").glob("*.toml"))
ZOO = sorted((SCENARIOS / "zoo").glob("*.toml"))


def simulate(scenario: Path, folder: Path, *options: str) -> bool:
    """Returns: whether there is a trace of it."""
    subprocess.run([BUILD / "bin" / "lockstep", "run", scenario, "--quiet", "--trace", folder, *options],
                   capture_output=True, check=False)
    return any(folder.glob("*.jsonl"))


class Growing:
    """Copies a trace to another folder, some bytes of each rank at a time."""

    def __init__(self, trace: Path, folder: Path, seed: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.left = {path.name: path.read_bytes() for path in sorted(trace.glob("*.jsonl"))}
        self.random = random.Random(seed)

    def grow(self) -> bool:
        """Ranks of different speed; lines are cut anywhere. Returns: whether there is more."""
        for name, data in self.left.items():
            rank = name[name.index("rank"):]
            if any(self.left[other] for other in self.left if other < name and other.endswith(rank)):
                continue  # A rank's earlier attempt is over when the next one starts.
            n = self.random.choice((0, 17, 400, 3000))
            with open(self.folder / name, "ab") as file:
                file.write(data[:n])
            self.left[name] = data[n:]
        return any(self.left.values())


def judge_growing(trace: Path, folder: Path, seed: int = 0) -> list[lockstep.Finding]:
    growing = Growing(trace, folder, seed)
    judge = Judge(folder, [], lambda finding: None)
    judge._next = float("-inf")
    more = True
    while more:
        more = growing.grow()
        judge.look(0.0)
        judge._next = float("-inf")  # As if judging took no time: every state is looked at.
    assert judge.trouble == ""
    return judge.found


@pytest.mark.parametrize("scenario", [*KILLED, *ZOO], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_found_early_is_found_in_the_whole(scenario: Path, tmp_path: Path) -> None:
    if not simulate(scenario, tmp_path / "trace"):
        pytest.skip("this scenario records nothing")
    whole = {identity(finding) for finding in lockstep.check(tmp_path / "trace").findings}
    for seed in (1, 2):
        early = judge_growing(tmp_path / "trace", tmp_path / f"growing-{seed}", seed)
        assert {identity(finding) for finding in early} <= whole, [str(finding) for finding in early]


def test_most_findings_about_steps_come_early(tmp_path: Path) -> None:
    found = {}
    for scenario in KILLED:
        trace = tmp_path / scenario.stem
        simulate(scenario, trace)
        found[scenario.stem] = {finding.law for finding in judge_growing(trace, tmp_path / f"{scenario.stem}-grown")}
    assert "optimizer-equal" in found["learning_rate_per_rank"]
    assert "replicas-equal" in found["clip_one_rank"]
    assert "init-equal" in found["parameter_nudged"]
    assert "reduced-once" in found["raw_module"]
    assert "accumulated-once" in found["zero_grad_forgotten"]


def test_healthy_jobs_are_silent_while_they_grow(tmp_path: Path) -> None:
    for scenario in KILLED:
        trace = tmp_path / scenario.stem
        assert simulate(scenario, trace, "--variant", "control")
        assert judge_growing(trace, tmp_path / f"{scenario.stem}-grown") == []


def test_calls_that_do_not_match_are_found_in_silence(tmp_path: Path) -> None:
    simulate(SCENARIOS / "kill_matrix" / "shape_differs.toml", tmp_path / "trace")
    judge = Judge(tmp_path / "trace", ["collectives-match"], lambda finding: None)
    assert judge.look(0.0) == ""
    judge._next = float("-inf")
    assert judge.look(60.0) == "collectives-match"
    assert [finding.ranks for finding in judge.found] == [(1,)]


def test_an_end_that_is_taken_back_is_not_believed(tmp_path: Path) -> None:
    simulate(SCENARIOS / "kill_matrix" / "clip_one_rank.toml", tmp_path / "trace", "--variant", "control")
    growing = tmp_path / "growing"
    growing.mkdir()
    whole = {path.name: path.read_bytes().splitlines(keepends=True)
             for path in (tmp_path / "trace").glob("*.jsonl")}
    judge = Judge(growing, [], lambda finding: None)
    for name, lines in whole.items():
        half = lines[:len(lines) // 2]
        end = json.loads(lines[-1]) | {"i": json.loads(half[-1])["i"] + 1, "outcome": "stuck"}
        (growing / name).write_bytes(b"".join(half) + json.dumps(end).encode() + b"\n")
    judge.look(0.0)
    for name, lines in whole.items():
        (growing / name).write_bytes(b"".join(lines))
    judge._next = float("-inf")
    judge.look(0.0)
    assert judge.trouble == ""
    assert judge.found == []


def test_a_damaged_line_is_named_and_stops_the_judge(tmp_path: Path) -> None:
    simulate(SCENARIOS / "kill_matrix" / "clip_one_rank.toml", tmp_path / "trace")
    path = tmp_path / "trace" / "a000.rank-00000.jsonl"
    lines = path.read_text().splitlines()
    lines[3] = '{"rank":0,'
    path.write_text("\n".join(lines) + "\n")
    judge = Judge(tmp_path / "trace", [], lambda finding: None)
    assert judge.look(0.0) == ""
    assert judge.trouble.startswith(f"{path}:4:")


def test_a_folder_without_files_is_waited_for(tmp_path: Path) -> None:
    judge = Judge(tmp_path / "later", [], lambda finding: None)
    assert judge.look(10.0) == ""
    assert judge.trouble == ""


def test_a_misspelt_law_is_guessed() -> None:
    assert law_to_stop_on("REPLICAS-EQUAL") == "replicas-equal"
    assert law_to_stop_on("any") == "any"
    with pytest.raises(ValueError, match="did you mean 'replicas-equal'"):
        law_to_stop_on("replica-equal")
    with pytest.raises(ValueError, match="compares several runs"):
        _core.known_law("resume-equal")


def test_a_job_that_was_ended_for_a_law_has_no_other_findings(tmp_path: Path) -> None:
    # The ranks are cut off in the middle of a step, each at another place.
    simulate(SCENARIOS / "kill_matrix" / "clip_one_rank.toml", tmp_path / "trace", "--variant", "control")
    for cut, path in enumerate(sorted((tmp_path / "trace").glob("*.jsonl"))):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:len(lines) // 2 + 3 * cut]))
    stop_note.write(tmp_path / "trace", "replicas-equal")
    assert reap(tmp_path / "trace") == 2
    report = lockstep.check(tmp_path / "trace")
    assert report.findings == ()
    assert report.outcome == "ok"
    ends = [json.loads(path.read_text().splitlines()[-1]) for path in (tmp_path / "trace").glob("*.jsonl")]
    assert {end["reason"] for end in ends} == {"law-broken"}
    # Without the note, the same files are of ranks that died.
    for path in (tmp_path / "trace").glob("*.jsonl"):
        path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    (tmp_path / "trace" / stop_note.NAME).unlink()
    reap(tmp_path / "trace")
    assert not lockstep.check(tmp_path / "trace").ok
