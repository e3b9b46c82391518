"""Whether Lockstep saw what there is to see: on the buggy release the bug, on the fixed one nothing."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from museum.exhibits import Exhibit


@dataclass(frozen=True)
class Verdict:
    """What became of one exhibit. `complaints` are empty if all is as expected."""

    name: str
    buggy: str  # A cell of the table each.
    fixed: str
    complaints: tuple[str, ...] = ()


def judge(exhibit: Exhibit, on_buggy: Any, on_fixed: Any) -> Verdict:
    """Compares two reports of lockstep.check with what the exhibit expects."""
    complaints = []
    missed = [expected for expected in exhibit.expect
              if not any(expected.fits(finding) for finding in on_buggy.findings)]
    if exhibit.not_caught and not missed:
        complaints.append(f"{exhibit.package} {exhibit.buggy} is caught by now: drop `not_caught`")
    if missed and not exhibit.not_caught:
        given = "; ".join(map(str, on_buggy.findings)) or "nothing"
        complaints += [f"{exhibit.package} {exhibit.buggy}: expected {expected}; found {given}"
                       for expected in missed]
    if not on_fixed.ok:
        given = "; ".join(map(str, on_fixed.findings)) or on_fixed.error or on_fixed.outcome
        complaints.append(f"{exhibit.package} {exhibit.fixed} is accused: {given}")
    return Verdict(exhibit.name, _caught(exhibit, missed, on_buggy),
                   "silent" if on_fixed.ok else "ACCUSED", tuple(complaints))


def _caught(exhibit: Exhibit, missed: list[Any], report: Any) -> str:
    if exhibit.not_caught and missed:
        return "not caught yet"
    if missed:
        return "MISSED"
    found = []
    for expected in exhibit.expect:
        finding = next(f for f in report.findings if expected.fits(f))
        where = f"epoch {finding.epoch}" if expected.epoch is not None else f"step {finding.step}"
        found.append(f"{finding.law} at {where}" + (f": {finding.cause}" if finding.cause else ""))
    return ", ".join(found)


def table(verdicts: list[Verdict]) -> str:
    rows = [("exhibit", "buggy release", "fixed release"),
            *((v.name, v.buggy, v.fixed) for v in verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)
