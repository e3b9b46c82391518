"""The laws on a folder of traces, as objects."""
from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep import _core

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

BUFFER_POLICIES = ("broadcast0", "mean", "synced", "local")


@dataclass(frozen=True)
class Finding:
    """A law broken at a place. Fields that do not apply are empty or None (docs/report_format.md)."""

    law: str
    sentence: str  # The whole of it for people, with place and law.
    message: str
    cause: str  # Id of the likely cause (docs/causes.md), or "".
    cause_text: str
    remedy: str
    page: str
    event: str
    tensor: str
    field: str
    site: str
    other_site: str
    ranks: tuple[int, ...]
    missing: tuple[int, ...]  # Ranks that never made the call.
    weights: tuple[float, ...]
    declared: tuple[float, ...]
    step: int | None  # Optimizer step, 0 = the first.
    seq: int | None
    element: int | None
    attempt: int
    epoch: int
    group: int

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class LawResult:
    law: str
    verdict: str  # "holds", "broken" or "not-checkable".
    missing: str  # If not checkable: what to add.
    checks: int
    findings: tuple[Finding, ...]
    advice: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What the laws say about one recorded job."""

    outcome: str  # "ok", "findings", "hang" or "error".
    error: str
    ranks: int
    events: int
    laws: tuple[LawResult, ...]
    notes: tuple[str, ...]
    text: str = ""  # As `lockstep check` prints it, without digests; empty where the report was read from a file.

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for law in self.laws for finding in law.findings)

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    def law(self, name: str) -> LawResult:
        """The result of one law. Raises KeyError."""
        for law in self.laws:
            if law.law == name:
                return law
        raise KeyError(name)

    def raise_for_findings(self) -> None:
        """Raises BrokenLaws unless the job ended well and no law was broken."""
        if not self.ok:
            raise BrokenLaws(self)

    def __str__(self) -> str:
        return self.text or "\n".join(map(str, self.findings))


class BrokenLaws(AssertionError):
    """A recorded job broke laws; `report` has them."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


def check(folder: str | PathLike[str] | Sequence[str | PathLike[str]], *, allow: Sequence[str] = (), buffers: str = "") -> Report:
    """Judges the traces of one job, as `lockstep check` does.

    Args:
        folder: what `lockstep record` or `lockstep.record` wrote; of a job on several nodes, the folders of all nodes.
        allow: "LAW" or "LAW@TENSOR", exempted on purpose.
        buffers: what buffers were meant to be, where that is not what the wrapper does:
            "broadcast0", "mean", "synced" or "local".

    Raises:
        ValueError: `buffers` is none of these, there is no trace in the folder, or a file of it is damaged; the message names
            file, line and column.

    Example:
        for finding in lockstep.check("trace").findings:
            print(finding.law, finding.step, finding.ranks, finding.cause)
    """
    if buffers not in ("", *BUFFER_POLICIES):
        raise ValueError(f"buffers={buffers!r}: must be one of {', '.join(BUFFER_POLICIES)}")
    folders = [folder] if isinstance(folder, (str, os.PathLike)) else folder
    return report_of(json.loads(_core.check([str(one) for one in folders], list(allow), buffers)))


def _finding_of(row: dict[str, Any]) -> Finding:
    fields = {name: row[name] for name in Finding.__dataclass_fields__}
    for name in ("ranks", "missing", "weights", "declared"):
        fields[name] = tuple(fields[name])
    return Finding(**fields)


def _law_of(row: dict[str, Any]) -> LawResult:
    return LawResult(law=row["law"], verdict=row["verdict"], missing=row["missing"],
                     checks=row["checks"], findings=tuple(map(_finding_of, row["findings"])),
                     advice=tuple(f"{advice['id']}: {advice['message']}" for advice in row["advice"]))


def report_of(row: dict[str, Any]) -> Report:
    """The object of a report that was written as JSON."""
    return Report(outcome=row["outcome"], error=row["error"], ranks=row["ranks"],
                  events=row["events"], laws=tuple(map(_law_of, row["laws"])),
                  notes=tuple(row["notes"]), text=row.get("text", "").rstrip("\n"))
