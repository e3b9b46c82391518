"""Reported bugs as ordinary scripts, recorded on real processes: caught where an event can show them; fixed scripts are silent."""
from __future__ import annotations

import os
from pathlib import Path

import lockstep
import pytest
from caught_test import fits
from forked import run_job
from reported import BEGIN, BROKEN, END, FOLDER, PAGE, ROWS, advised, table


@pytest.mark.parametrize(("name", "form"), BROKEN)
def test_a_reported_bug_is_caught(name: str, form: tuple[str, ...], tmp_path: Path) -> None:
    row = ROWS[name]
    ran = run_job(FOLDER / f"{name}.py", row.ranks, tmp_path / "trace", tmp_path, arguments=form)
    assert ran.troubles == []
    report = lockstep.check(tmp_path / "trace")
    expected = row.expected(form)
    if expected is None:
        assert report.findings or ran.codes == [0] * row.ranks, ran.output
        assert all(row.is_harm(finding) for finding in report.findings), str(report)
        assert not row.advice or row.advice in advised(report)
    else:
        assert any(fits(finding, expected) for finding in report.findings), f"{expected}\n{report}\n{ran.output}"


@pytest.mark.parametrize(("name", "form"), BROKEN)
def test_the_fixed_twin_of_a_reported_bug_is_silent(name: str, form: tuple[str, ...], tmp_path: Path) -> None:
    row = ROWS[name]
    ran = run_job(FOLDER / f"{name}.py", row.ranks, tmp_path / "trace", tmp_path, arguments=("--fixed", *form))
    assert ran.codes == [0] * row.ranks, ran.output
    assert ran.troubles == []
    report = lockstep.check(tmp_path / "trace")
    assert report.ok, str(report)
    assert not row.advice or row.advice not in advised(report)


def test_parameters_that_a_wrapper_is_to_leave_alone_are_no_matter(tmp_path: Path) -> None:
    script = tmp_path / "ignores.py"
    text = (FOLDER / "backbone_outside.py").read_text()
    wraps = "        model = DistributedDataParallel(model)\n"
    assert text.count(wraps) == 1
    names = "[name for name, _ in model.named_parameters() if 'backbone' in name]"
    ignores = f"        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, {names})\n"
    script.write_text(text.replace(wraps, ignores + wraps))
    ran = run_job(script, 2, tmp_path / "trace", tmp_path, arguments=("--fixed",))
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    assert "A-unwrapped" not in advised(lockstep.check(tmp_path / "trace"))


def test_the_page_says_what_is_noticed() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == ROWS.keys()
    before, _, rest = PAGE.read_text().partition(BEGIN)
    now, _, after = rest.partition(END)
    if os.environ.get("LOCKSTEP_UPDATE_GOLDEN"):
        PAGE.write_text(before + BEGIN + table() + END + after)
    else:
        assert now == table()
