#!/usr/bin/env python3
"""Names of tests can be read alone: none begins with a word that refers to the test before it, none is one word.

  names_test.py         judges tests/**/*_test.cc, *_property.cc and suites, and the tests in Python
"""
from __future__ import annotations

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERS = {"so", "neither", "nor", "it", "its", "they", "their", "theirs", "them", "then", "of", "who", "whose"}
_GTEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),\s*(\w+)", re.M)
_PYTHON = re.compile(r"^ *(?:async )?def test_(\w+)", re.M)
# Sources inside of sources: tests that a test writes, runs and throws away.
_RAW_TEXT = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)
_LONG_TEXT = re.compile(r'(?:\'\'\'|""").*?(?:\'\'\'|""")', re.S)


def words_of(name: str) -> list[str]:
    """The words of a name in either spelling, in small letters."""
    if "_" in name or name.islower():
        return name.lower().split("_")
    return [word.lower() for word in re.findall(r"[A-Z0-9]+[a-z0-9]*|[a-z0-9]+", name)]


def fault_of(name: str) -> str:
    """What is wrong with a name; empty: nothing."""
    words = words_of(name)
    if words[0] in REFERS:
        return f"'{name}' begins with '{words[0]}': say what holds, in a sentence that can be read alone"
    if len(words) < 2:
        return f"'{name}' is one word: say what holds, in a sentence"
    return ""


def names_in(path: Path) -> list[tuple[int, str]]:
    """Line and name of each test of a file."""
    text = path.read_text(encoding="utf-8")
    inner, pattern = (_LONG_TEXT, _PYTHON) if path.suffix == ".py" else (_RAW_TEXT, _GTEST)
    text = inner.sub(lambda found: "\n" * found[0].count("\n"), text)
    return [(text.count("\n", 0, found.start()) + 1, found[found.lastindex]) for found in pattern.finditer(text)]


def files() -> list[Path]:
    sources = [path for folder in ("tests", "gpu") for path in (ROOT / folder).rglob("*.cc")]
    scripts = [path for folder in ("tests", "python/tests") for path in (ROOT / folder).rglob("*_test.py")]
    return sorted(sources + scripts)


def faults() -> list[str]:
    return [f"{path.relative_to(ROOT)}:{line}: {fault}" for path in files() for line, name in names_in(path)
            if (fault := fault_of(name))]


class Names(unittest.TestCase):
    def test_every_name_of_a_test_can_be_read_alone(self) -> None:
        self.assertGreater(sum(len(names_in(path)) for path in files()), 3000)
        self.assertEqual([], faults())

    def test_first_words_that_refer_to_another_test_are_faults(self) -> None:
        for name in ("SoIsTheMemoryOfLargeTensors", "NeitherIsThat", "ItsSchedulesReplay", "TheyAddUp", "OfLinear",
                     "its_fixed_twin_is_silent", "so_does_a_list", "it_is_interrupted"):
            self.assertIn("begins with", fault_of(name), name)

    def test_one_word_is_a_fault(self) -> None:
        for name in ("Holds", "Lost", "sum"):
            self.assertIn("one word", fault_of(name), name)

    def test_words_that_only_begin_alike_are_fine(self) -> None:
        for name in ("SoftmaxIsWithinItsBounds", "OffsetsAreKept", "ItemsAreCounted", "A16BitDrawIsRounded",
                     "item_names_are_kept", "TanhRounds"):
            self.assertEqual("", fault_of(name), name)

    def test_tests_inside_of_texts_are_not_judged(self) -> None:
        self.assertEqual("", _RAW_TEXT.sub("", 'R"(TEST(X, Holds) {})"'))
        self.assertEqual("", _LONG_TEXT.sub("", "'''\ndef test_sum():\n'''"))


if __name__ == "__main__":
    unittest.main()
