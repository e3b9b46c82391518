#!/usr/bin/env python3
"""Every entry of mutations.py still has its place: the text occurs exactly once, and its replacement differs."""
from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from mutations import MUTATIONS

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


if __name__ == "__main__":
    unittest.main()
