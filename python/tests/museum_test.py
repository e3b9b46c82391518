"""The museum's own logic, without the network: a miss and a false alarm are noticed."""
from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PYTHON))

from museum import exhibits, judging, releases, shipping  # noqa: E402


@dataclass(frozen=True)
class Found:
    """Looks like lockstep.Finding as far as the museum reads one."""

    law: str
    cause: str = ""
    step: int | None = 0
    epoch: int = -1
    ranks: tuple[int, ...] = ()
    tensor: str = ""
    field: str = ""
    site: str = ""
    other_site: str = ""


@dataclass(frozen=True)
class Law:
    """Looks like lockstep.LawResult."""

    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reported:
    """Looks like lockstep.Report."""

    findings: tuple[Found, ...] = ()
    error: str = ""
    outcome: str = "ok"
    laws: tuple[Law, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings and not self.error


BUG = Found("reduced-once", cause="bypass-wrapper", step=3, ranks=(0, 1), site="a/train.py:9")
EXPECTED = exhibits.Expected("reduced-once", cause="bypass-wrapper", step=3, site="train.py:9")


def exhibit_of(*expected: exhibits.Expected, not_caught: str = "") -> exhibits.Exhibit:
    return exhibits.Exhibit("one", "package", "1.0", "1.1", "https://example.org", "It was wrong.",
                            expected or (EXPECTED,), not_caught=not_caught)


def test_a_bug_that_is_named_and_a_silent_fix_are_as_expected() -> None:
    verdict = judging.judge(exhibit_of(), Reported((BUG,)), Reported())
    assert verdict.complaints == ()
    assert verdict.buggy == "reduced-once at step 3: bypass-wrapper" and verdict.fixed == "silent"


@pytest.mark.parametrize("change", [
    {"law": "gradient-mean"}, {"cause": "replica-drift"}, {"step": 4}, {"site": "train.py:19"}])
def test_another_law_cause_step_or_place_is_a_miss(change: dict[str, object]) -> None:
    other = Found(**{**BUG.__dict__, **change})  # type: ignore[arg-type]
    verdict = judging.judge(exhibit_of(), Reported((other,)), Reported())
    assert verdict.buggy == "MISSED" and len(verdict.complaints) == 1


def test_each_expectation_has_to_be_met() -> None:
    both = exhibit_of(EXPECTED, exhibits.Expected("replicas-equal"))
    assert judging.judge(both, Reported((BUG,)), Reported()).buggy == "MISSED"
    assert judging.judge(both, Reported((BUG, Found("replicas-equal"))), Reported()).complaints == ()


def test_a_fixed_release_that_is_accused_is_noticed() -> None:
    verdict = judging.judge(exhibit_of(), Reported((BUG,)), Reported((BUG,)))
    assert verdict.fixed == "ACCUSED" and "1.1 is accused" in verdict.complaints[0]


def test_a_fixed_release_that_fails_is_noticed() -> None:
    assert judging.judge(exhibit_of(), Reported((BUG,)), Reported(error="rank 0: OSError")).complaints


def test_what_is_not_caught_yet_is_listed_until_it_is() -> None:
    listed = exhibit_of(not_caught="no law")
    assert judging.judge(listed, Reported(), Reported()) == judging.Verdict("one", "not caught yet", "silent")
    assert "is caught by now" in judging.judge(listed, Reported((BUG,)), Reported()).complaints[0]
    assert judging.judge(listed, Reported(), Reported((BUG,))).complaints  # A false alarm stays one.


def test_a_table_has_a_row_for_each_exhibit() -> None:
    rows = judging.table([judging.Verdict("one", "MISSED", "silent")]).splitlines()
    assert len(rows) == 2 and rows[1].split() == ["one", "MISSED", "silent"]


def test_an_unknown_exhibit_is_refused_with_a_guess() -> None:
    ran = subprocess.run([sys.executable, str(PYTHON / "museum" / "run.py"), "build", "vq_dead_code"],
                         capture_output=True, text=True)
    assert ran.returncode == 2
    assert "no exhibit 'vq_dead_code'; did you mean 'vq_dead_codes'?" in ran.stderr


@pytest.mark.parametrize(("text", "complaint"), [
    ("package = 'p'\n", "expects nothing"), ("package = ", "Invalid value"),
    ("pakage = 'p'\n[[expect]]\nlaw = 'x'\n", "pakage"),
    ("[[expect]]\nlow = 'x'\n", "low")])
def test_a_damaged_record_is_refused_with_its_file(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    required = "buggy = '1'\nfixed = '2'\nupstream = 'u'\nwrong = 'w'\n" if "package =" in text else ""
    (tmp_path / "one" / "exhibit.toml").write_text(required + text)
    with pytest.raises(exhibits.Refused, match=complaint) as refused:
        exhibits.load("one", tmp_path)
    assert "one/exhibit.toml" in str(refused.value)


def test_sets_of_releases_are_replaced_by_what_is_in_them() -> None:
    assert releases.expanded(("einops==0.8.2", "web")) == ["einops==0.8.2", *releases.SETS["web"]]
    assert all("==" in release for release in releases.expanded(("web", "hugging-face")))


@pytest.mark.parametrize("name", exhibits.names())
def test_an_exhibit_is_a_short_plain_script_with_its_record(name: str) -> None:
    exhibit = exhibits.load(name)
    lines = exhibit.script.read_text().splitlines()
    assert len(lines) <= 60
    assert exhibit.upstream.startswith("https://") and exhibit.wrong.endswith(".")
    assert all("==" in release for release in exhibit.releases(exhibit.buggy))
    said = any("lockstep" in line.lower() for line in lines)
    assert bool(exhibit.word) == (said or bool(exhibit.buffers)), "a word to Lockstep is explained"


PLAIN = shipping.Ran(0, ("rank 0 done", "rank 1 done"))
SCRIPT = shipping.Job("package", "script", "script.py")


def test_a_shipped_script_that_is_not_accused_and_not_changed_is_well() -> None:
    outcome = shipping.judge(SCRIPT, PLAIN, PLAIN, Reported(), 9)
    assert outcome.complaints == () and outcome.says == "ok"


def test_the_advice_that_a_shipped_script_gets_is_shown() -> None:
    report = Reported(laws=(Law(), Law(("A-first: do this", "A-second: or that")), Law(("A-third: yes",))))
    assert shipping.judge(SCRIPT, PLAIN, PLAIN, report, 9).says == "ok A-first A-second A-third"


@pytest.mark.parametrize(("plain", "recorded", "report", "events", "complaint"), [
    (PLAIN, PLAIN, Reported((BUG,)), 9, "is accused"),
    (PLAIN, PLAIN, Reported(error="rank 1 died"), 9, "is accused: rank 1 died"),
    (PLAIN, PLAIN, None, 0, "nothing was recorded"),
    (PLAIN, PLAIN, Reported(), 0, "nothing was recorded"),
    (PLAIN, shipping.Ran(1, PLAIN.lines), Reported(), 9, "exit code 0 became 1"),
    (PLAIN, shipping.Ran(0, PLAIN.lines[:1]), Reported(), 9, "it no longer prints: rank 1 done"),
    (PLAIN, shipping.Ran(0, (*PLAIN.lines, "rank 1 done")), Reported(), 9, "it also prints: rank 1 done"),
    (shipping.Ran(1, ()), shipping.Ran(1, ()), Reported(), 9, "fails without the recorder")])
def test_what_is_wrong_with_a_shipped_script_is_noticed(
        plain: shipping.Ran, recorded: shipping.Ran, report: Reported | None, events: int, complaint: str) -> None:
    outcome = shipping.judge(SCRIPT, plain, recorded, report, events)
    assert len(outcome.complaints) == 1 and complaint in outcome.complaints[0]
    assert outcome.says == "COMPLAINT"


def test_outputs_are_compared_without_times_addresses_and_ports() -> None:
    first = "rank 1 at 0x7f01\nloss 0.25 in 1.32s\nat 127.0.0.1:51234\nlockstep: recorded 2 ranks\n"
    again = "loss 0.25 in 0.9s\nat 127.0.0.1:40001\nrank 1 at 0x8802\n"
    again += "ERROR:2026-11-23 12:14:20 25820:25820 DeviceProperties.cpp:56] gpuGetDeviceCount failed with code 100\n"
    assert shipping.normalised(first) == shipping.normalised(again) != ()
    assert shipping.normalised(first) != shipping.normalised(again.replace("0.25", "0.26"))


def test_shipped_scripts_are_chosen_by_name_or_package() -> None:
    every = shipping.chosen([])
    assert len({job.name for job in every}) == len(every)
    assert all((shipping.HERE / job.script).exists() for job in every)
    assert {job.package for job in shipping.chosen(["pytorch", "test_ops"])} == {"pytorch", "accelerate"}
    with pytest.raises(exhibits.Refused, match="nothing shipped is called 'test_opps'"):
        shipping.chosen(["test_opps"])
