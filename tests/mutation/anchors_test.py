#!/usr/bin/env python3
"""Every entry of mutations.py still has its place: the text occurs exactly once, and its replacement differs.
RESULTS.md says of each when it was tried."""
from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from mutations import MUTATIONS
from run import PROGRAMS, RESULTS, page_of

ROOT = Path(__file__).resolve().parent.parent.parent


def faults_of(mutations: list[tuple[str, str, str, str]], root: Path) -> list[str]:
    """What is wrong with entries, one line per fault."""
    faults = []
    for name, file, before, after in mutations:
        path = root / file
        if not path.is_file():
            faults.append(f"{name}: {file} does not exist")
            continue
        times = path.read_text(encoding="utf-8").count(before)
        if times != 1:
            faults.append(f"{name}: its text occurs {times} times in {file}")
        if before == after:
            faults.append(f"{name}: the replacement is the text itself")
    return faults


class Anchors(unittest.TestCase):
    def test_every_text_occurs_exactly_once(self) -> None:
        self.assertEqual([], faults_of(MUTATIONS, ROOT))

    def test_every_defect_has_a_different_name(self) -> None:
        names = [name for name, *_ in MUTATIONS]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_a_missing_file_a_lost_text_and_a_repeated_text_are_faults(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.cc").write_text("one two two three", encoding="utf-8")
            sample = [("gone", "b.cc", "one", ""), ("lost", "a.cc", "four", ""),
                      ("repeated", "a.cc", "two", ""), ("same", "a.cc", "one", "one"), ("fine", "a.cc", "three", "")]
            self.assertEqual(["gone: b.cc does not exist",
                              "lost: its text occurs 0 times in a.cc",
                              "repeated: its text occurs 2 times in a.cc",
                              "same: the replacement is the text itself"],
                             faults_of(sample, Path(folder)))


class Results(unittest.TestCase):
    def rows(self, page: str) -> dict[str, list[str]]:
        lines = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in page.splitlines() if line[:2] == "| "]
        return {cells[0]: cells[1:] for cells in lines[1:]}

    def test_the_page_has_a_row_for_every_defect(self) -> None:
        rows = self.rows(RESULTS.read_text(encoding="utf-8"))
        self.assertEqual([(name, f"`{file}`") for name, file, *_ in MUTATIONS],
                         [(name, row[0]) for name, row in rows.items()])
        self.assertEqual({2 + len(PROGRAMS)}, {len(row) for row in rows.values()})

    def test_a_defect_that_is_not_tried_again_keeps_its_row_and_says_so(self) -> None:
        caught, missed, kept = (name for name, *_ in MUTATIONS[:3])
        first = page_of({caught: {"comm_test": "A.B"}, missed: {}, kept: {"ddp_test": "C.D"}}, "abc (2026-01-01)", "")
        rows = self.rows(page_of({caught: {"ddp_test": "E.F"}}, "def (2026-01-02)", first))
        self.assertEqual(["def (2026-01-02)", "E.F", "-"], rows[caught][1:4])
        self.assertEqual("not run since abc (2026-01-01), NOT CAUGHT", rows[missed][1])
        self.assertEqual(["not run since abc (2026-01-01)", "C.D"], rows[kept][1:3])
        self.assertEqual("never run", rows[MUTATIONS[3][0]][1])
        self.assertEqual(rows[kept], self.rows(page_of({}, "fed (2026-01-03)", first))[kept])


if __name__ == "__main__":
    unittest.main()
