"""Judging a job while it runs."""
from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from lockstep import _core
from lockstep.report import report_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lockstep.report import Finding, Report

ANY = "any"
SILENT_S = 3.0  # After that, calls of ranks that are not level are compared, too.
MOST_SHARE = 0.05  # Of the time is spent on judging.


def law_to_stop_on(name: str) -> str:
    """The id of a law, or "any". Raises ValueError, with a guess."""
    return ANY if name.lower() == ANY else _core.known_law(name)


def identity(finding: Finding) -> tuple[object, ...]:
    """What makes it the same finding while more is learned about its cause."""
    return (finding.law, finding.attempt, finding.step, finding.event, finding.tensor, finding.group,
            finding.seq, finding.ranks)


class Judge:
    """Looks at a folder now and then, and says what is new."""

    def __init__(self, folder: Path, stop_on: Sequence[str], say: Callable[[Finding], None]) -> None:
        self.found: list[Finding] = []
        self.trouble = ""  # Why it cannot be judged while it runs.
        self._watch = _core.watch_open(str(folder), [], "")
        self._stop_on = tuple(stop_on)
        self._say = say
        self._known: set[tuple[object, ...]] = set()
        self._next = 0.0

    def look(self, silent_s: float) -> str:
        """Reads on, unless judging has taken too much of the time.

        Args:
            silent_s: seconds since a rank last recorded something.

        Returns: the law that the job is to be ended for, or "".
        """
        began = time.monotonic()
        if self.trouble or began < self._next:
            return ""
        try:
            text = _core.watch_poll(self._watch, silent_s >= SILENT_S)
        except ValueError as error:
            self.trouble = str(error)
            return ""
        now = time.monotonic()
        self._next = now + (now - began) / MOST_SHARE
        return self.take(report_of(json.loads(text))) if text else ""

    def take(self, report: Report) -> str:
        """Says what is new in a report. Returns: the first law to end the job for, or ""."""
        law = ""
        for finding in report.findings:
            if identity(finding) in self._known:
                continue
            self._known.add(identity(finding))
            self.found.append(finding)
            self._say(finding)
            if not law and (finding.law in self._stop_on or ANY in self._stop_on):
                law = finding.law
        return law
