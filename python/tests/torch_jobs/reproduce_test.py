"""From a recorded incident to a scenario and a test that show it."""
from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import lockstep
import pytest
from caught_test import BROKEN, MEANT, fits
from forked import SCRIPTS, Recorder, run_job
from lockstep.reproduce import CannotReproduce, is_same, main, reproduce

LOCKSTEP = Path(os.environ["LOCKSTEP_BUILD"]) / "bin" / "lockstep"

# Of these a trace has the calls and not what was computed between them: no step is shown, and that is said.
CALLS_ALONE = ("hang.py", "operation_differs.py", "root_differs.py", "shape_differs.py", "sum_against_max.py")

# The recorder looks at buffers when a forward begins, the simulator at the end; and at what a worker draws when
# its first batch is used, the simulator when it is made.
SEEN_ELSEWHERE = {"buffers_not_broadcast.py": 3, "same_numpy_seed.py": 0}


def simulated(scenario: Path, folder: Path, buffers: str) -> lockstep.Report:
    subprocess.run([LOCKSTEP, "run", scenario, "--quiet", "--trace", folder], check=False)
    return lockstep.check(folder, buffers=buffers)


# No recipe plays what these did, or shows the finding in another place than the first.
NOT_PLAYED = ("averaged_flat_twice.py", "averaged_twice.py", "batches_by_length.py", "classes_of_a_set.py",
              "cleared_before_step.py", "clip_before_sync.py", "eval_mode_one_rank.py", "files_unsorted.py",
              "gather_function.py", "gather_own_anchors.py", "gather_own_share.py", "groups_differ.py",
              "local_sgd_denominator.py", "random_split_per_rank.py", "reduced_again.py", "sampler_of_more_ranks.py",
              "losses_summed_then_divided.py",
              "mean_in_a_function_divided.py", "shards_overlap.py", "sum_outside_autograd.py")
PLAYED_IN_PART = ("head_replaced.py", "inner_optimizer_alone.py", "join_momentum.py")
PLAYED = tuple(name for name in BROKEN if name not in NOT_PLAYED)


@pytest.mark.parametrize("script", NOT_PLAYED)
def test_what_no_recipe_plays_is_refused_in_a_sentence(script: str, recorded: Recorder, tmp_path: Path) -> None:
    with pytest.raises(CannotReproduce, match="no small job is known that shows this"):
        reproduce([recorded(script, BROKEN[script][0]).trace], str(tmp_path / "again"))
    assert not list(tmp_path.glob("again*"))


@pytest.mark.parametrize("script", PLAYED)
def test_the_scenario_shows_what_the_script_did(script: str, recorded: Recorder, tmp_path: Path) -> None:
    ranks, expected = BROKEN[script]
    trace = recorded(script, ranks).trace
    made = reproduce([trace], str(tmp_path / "again"), MEANT.get(script, ""))
    assert [path.name for path in made.files] == ["again.toml", "again_ranks.py", "test_again.py"]
    report = simulated(tmp_path / "again.toml", tmp_path / "simulated", MEANT.get(script, ""))
    for shown in made.shown:
        assert any(is_same(shown, finding) for finding in report.findings), str(shown)
    said = " ".join(made.missing)
    if script in CALLS_ALONE:
        assert "so there are no steps" in said
        laws = {(finding.law, finding.ranks) for finding in report.findings}
        assert any((wanted.law, wanted.ranks or made.finding.ranks) in laws for wanted in expected), str(report)
        return
    if script in SEEN_ELSEWHERE:
        assert f"seen in step {SEEN_ELSEWHERE[script]} there instead of in step {made.finding.step}" in said
        return
    if script in PLAYED_IN_PART:
        assert "not shown: " in said
        return
    # The first thing that was expected of the script is there, with its step and ranks.
    findings = lockstep.check(trace, buffers=MEANT.get(script, "")).findings
    [wanted, *_] = [finding for finding in findings if fits(finding, expected[0])]
    assert wanted in made.shown, f"{wanted}\n{report}\n{said}"


@pytest.mark.parametrize("script", PLAYED)
def test_the_reproduced_ranks_of_pytorch_show_the_finding(
        script: str, recorded: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce([recorded(script, BROKEN[script][0]).trace], str(tmp_path / "again"), MEANT.get(script, ""))
    test = runpy.run_path(str(tmp_path / "test_again.py"))["test_ranks_of_pytorch_show_it"]

    def forked(words: list[str | Path]) -> None:  # Instead of torchrun, for which each rank imports PyTorch.
        ranks, folder = words[words.index("--nproc-per-node") + 1], words[words.index("-o") + 1]
        run_job(Path(words[-1]), int(ranks), Path(folder), tmp_path)

    monkeypatch.setattr(subprocess, "run", forked)
    test(tmp_path / "by_ranks")


def pytest_of(test: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test], capture_output=True, text=True)


@pytest.mark.parametrize("script", ["wrong_lr.py", "shape_differs.py"])
def test_the_pytest_file_passes_as_it_is(script: str, recorded: Recorder, tmp_path: Path) -> None:
    reproduce([recorded(script, BROKEN[script][0]).trace], str(tmp_path / "again"))
    ran = pytest_of(tmp_path / "test_again.py")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


@pytest.mark.parametrize("script", ["wrong_lr.py", "bypass.py"])
def test_the_pytest_file_fails_without_the_mistake(script: str, recorded: Recorder, tmp_path: Path) -> None:
    reproduce([recorded(script, BROKEN[script][0]).trace], str(tmp_path / "again"))
    scenario = tmp_path / "again.toml"
    lines = [line for line in scenario.read_text().splitlines() if not line.startswith(("bug", "override"))]
    scenario.write_text("\n".join(lines))
    ran = pytest_of(f"{tmp_path / 'test_again.py'}::test_simulated_ranks_show_it")
    assert ran.returncode == 1, ran.stdout


def test_a_healthy_job_has_nothing_to_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_job(SCRIPTS / "clean.py", 2, tmp_path / "trace", tmp_path)
    with pytest.raises(CannotReproduce, match="no law is broken"):
        reproduce([tmp_path / "trace"], str(tmp_path / "again"))
    assert main([str(tmp_path / "trace"), "-o", str(tmp_path / "again")]) == 1
    assert "no law is broken" in capsys.readouterr().err
    assert not list(tmp_path.glob("again*"))


def test_dumps_of_the_flight_recorder_become_a_program(tmp_path: Path) -> None:
    golden = SCRIPTS.parents[2] / "tests" / "golden" / "flight_recorder"
    made = reproduce(sorted(golden.glob("*.json")), str(tmp_path / "dumped"))
    assert made.finding.law in ("progress", "collectives-match")
    assert "program = [" in (tmp_path / "dumped.toml").read_text()
    assert made.shown or made.elsewhere, made.missing


def test_traces_of_the_simulator_are_taken_too(tmp_path: Path) -> None:
    scenario = SCRIPTS.parents[2] / "scenarios" / "kill_matrix" / "learning_rate_per_rank.toml"
    subprocess.run([LOCKSTEP, "run", scenario, "--quiet", "--trace", tmp_path / "trace"], check=False)
    made = reproduce([tmp_path / "trace"], str(tmp_path / "again"))
    assert {finding.law for finding in made.shown} >= {"optimizer-equal", "replicas-equal"}


def test_bad_input_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dump_0").write_text("{")
    assert main([str(tmp_path / "dump_0")]) == 2
    assert "dump_0:1:2: neither valid JSON nor a pickle" in capsys.readouterr().err
    for arguments in (["-o", "not-a-name", str(tmp_path)], [str(tmp_path), str(tmp_path)]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
