#!/usr/bin/env python3
"""Sites are found where code runs and nowhere else; a switched file does what it says. Needs libclang."""
from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

try:
    import clang.cindex  # noqa: F401
except ImportError:
    print("NOT RUN: python3-clang is not installed", file=sys.stderr)
    sys.exit(77)

from copied_tree import switched, without_broken
from mutate import drawn
from sites import Operator, Site, Unit, sites_of
from kept import Measurements, Verdicts, measure
from trials import Reach, Test, calls_of, ended, noticed_by

SAMPLE = """\
#define CHECK(condition) if (!(condition)) throw 1
struct Point { int x = 7; int y = 8; };
constexpr int kBound = 3 + 4;
static_assert(kBound < 8);
template <int N> int sized() { return N; }
int minus(int a, int b) { return a - b; }
int classify(int n, bool& seen) {
  CHECK(n < 100);
  seen = true;
  if (n < 10) {
    return minus(n, kBound) + sized<4>();
  }
  const Point point{.x = n, .y = 2};
  return point.x + point.y;
}
"""


def found(text: str) -> list[Site]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sample.cc").write_text(text)
        unit = Unit(Path(folder, "sample.cc"), ("-std=c++20",))
        return sites_of(Path(folder), ["sample.cc"], unit)["sample.cc"]


class Sites(unittest.TestCase):
    def setUp(self) -> None:
        self.sites = found(SAMPLE)

    def one(self, operator: Operator, before: str) -> Site:
        (site,) = [s for s in self.sites if s.operator is operator and s.before == before]
        return site

    def test_every_operator_finds_its_site(self) -> None:
        self.assertEqual(self.one(Operator.COMPARISON, "n < 10").after, "n <= 10")
        self.assertEqual(self.one(Operator.CONDITION, "n < 10").after, "!(n < 10)")
        self.assertEqual(self.one(Operator.ARITHMETIC, "a - b").after, "a + b")
        self.assertEqual(self.one(Operator.NUMBER, "10").after, "11")
        self.assertEqual(self.one(Operator.TRUTH, "true").after, "false")
        self.assertTrue(self.one(Operator.REMOVAL, "seen = true").is_statement)
        self.assertEqual(self.one(Operator.FIELD, "n").after, "std::remove_cvref_t<decltype(n)>{}")
        self.assertEqual(self.one(Operator.SWAP, "minus(n, kBound)").after, "minus(kBound, n)")

    def test_macros_and_constant_expressions_have_no_sites(self) -> None:
        for text in ("n < 100", "3 + 4", "kBound < 8", "100", "3", "7"):
            self.assertEqual([s.name() for s in self.sites if s.before == text], [])

    def test_a_file_that_is_not_understood_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "sample.cc"):
            found("int broken( {")


class Draws(unittest.TestCase):
    def test_drawn_defects_do_not_overlap_and_a_seed_repeats_them(self) -> None:
        sites = found(SAMPLE)
        chosen = list(drawn(sites, 100, 3).values())
        for first, second in zip(chosen, chosen[1:]):
            self.assertLessEqual(first.end, second.begin)
        self.assertEqual(drawn(sites, 4, 3), drawn(sites, 4, 3))
        self.assertNotEqual(drawn(sites, 4, 3), drawn(sites, 4, 4))
        self.assertEqual(len(drawn(sites, 4, 3)), 4)

    def test_what_does_not_compile_is_dropped_by_its_line(self) -> None:
        sites = {0: Site("src/a.cc", 3, 0, 1, Operator.NUMBER, "1", "2"),
                 1: Site("src/a.cc", 9, 5, 6, Operator.NUMBER, "1", "2"),
                 2: Site("src/b.cc", 3, 0, 1, Operator.NUMBER, "1", "2")}
        self.assertEqual(set(without_broken(sites, "/t/src/a.cc:9:5: error: no\n")), {0, 2})
        self.assertEqual(set(without_broken(sites, "/t/src/a.cc:70:5: error: no\n")), {2})
        self.assertEqual(set(without_broken(sites, "ld: error\n")), {0, 1, 2})


MAIN = """
#include <cstdlib>
int classify(int n, bool& seen);
int main(int, char** words) {
  bool seen = false;
  const int value = classify(std::atoi(words[1]), seen);
  return value == std::atoi(words[2]) && seen ? 0 : 1;
}
"""


class Trials(unittest.TestCase):
    """The sample as a program, its tests as ctest would list them."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        here = Path(__file__).parent
        place = Path(folder.name, "lockstep/base")
        place.mkdir(parents=True)
        for name in ("mutant_switch.h", "mutant_switch.cc"):
            Path(place, name).write_text(Path(here, f"{name}.in").read_text())
        self.sites = drawn(found(SAMPLE), 100, 3)
        source = Path(folder.name, "sample.cc")
        source.write_bytes(b'#include "lockstep/base/mutant_switch.h"\n' +
                           switched(SAMPLE.encode(), self.sites))
        Path(folder.name, "main.cc").write_text(MAIN)
        self.program = str(Path(folder.name, "sample"))
        subprocess.run(["g++", "-std=c++20", "-w", "-I", folder.name, str(source),
                        str(Path(folder.name, "main.cc")), str(Path(place, "mutant_switch.cc")), "-o",
                        self.program], check=True)
        self.small = Test("small", (self.program, "5", "2"), folder.name, ())
        self.large = Test("large", (self.program, "20", "22"), folder.name, ())

    def number_of(self, before: str, operator: Operator | None = None) -> int:
        (number,) = [n for n, site in self.sites.items()
                     if site.before == before and operator in (None, site.operator)]
        return number

    def test_a_defect_is_reached_by_the_tests_that_run_it_and_noticed_by_those_that_look(self) -> None:
        reach = measure([self.small, self.large], 1)
        self.assertEqual(reach.failed, [])
        number = self.number_of("a - b")
        self.assertEqual(reach.tests_of(number), [self.small])
        self.assertIn("small", str(noticed_by(number, reach, "src/base")))

    def test_a_defect_that_no_test_looks_at_survives(self) -> None:
        reach = measure([self.large], 1)
        self.assertIsNone(noticed_by(self.number_of("a - b"), reach, "src/base"))

    def test_a_test_that_fails_without_a_defect_is_not_asked(self) -> None:
        wrong = Test("wrong", (self.program, "5", "3"), "/", ())
        self.assertEqual(measure([wrong, self.large], 1).failed, ["wrong"])

    def test_a_test_that_fails_now_and_then_notices_nothing(self) -> None:
        place = Path(self.large.folder, "failed_once")
        moody = Test("moody", ("sh", "-c", f"{self.program} 20 22; test -e {place} || {{ touch {place}; exit 1; }}"),
                     self.large.folder, ())
        reach = Reach()
        number = self.number_of("a - b")
        reach.add(moody, 0.1, {number}, 0.0)
        self.assertIsNone(noticed_by(number, reach, "src/base"))
        self.assertTrue(place.exists())

    def test_nothing_that_a_test_started_outlives_it(self) -> None:
        place = Path(self.large.folder, "child")
        Path(self.large.folder, "leave").write_text(f"setsid sleep 600 & echo $! > {place}\n")
        ended(Test("leaves", ("sh", str(Path(self.large.folder, "leave"))), "/", ()),
              ("sh", str(Path(self.large.folder, "leave"))), {}, None)
        child = Path("/proc", place.read_text().strip())
        for _ in range(1000):
            if not child.exists() or ") Z" in (child / "stat").read_text():
                return
            time.sleep(0.01)
        self.fail("it lives")

    def test_what_was_measured_is_known_until_the_program_or_the_draw_changes(self) -> None:
        folder = Path(self.large.folder)
        kept = Measurements(folder / "kept", folder, "draw")
        measure([self.large], 1, kept)
        again = Measurements(folder / "kept", folder, "draw").of(self.large)
        self.assertEqual(again and again[1], measure([self.large], 1).mutants[self.large])
        self.assertIsNone(Measurements(folder / "kept", folder, "another").of(self.large))
        Path(self.program).touch()
        self.assertIsNone(Measurements(folder / "kept", folder, "draw").of(self.large))

    def test_a_verdict_is_known_to_the_next_run(self) -> None:
        place = Path(self.large.folder, "verdicts")
        Verdicts(place).add("a defect", "a test", 5.0)
        Verdicts(place).add("another", None, 6.0)
        self.assertEqual(Verdicts(place).of("a defect"), "a test")
        self.assertIsNone(Verdicts(place).of("another"))
        self.assertEqual(Verdicts(place).survived("another"), 6.0)
        self.assertEqual(Verdicts(place).survived("a defect"), 0.0)

    def test_a_survivor_is_asked_about_by_tests_that_are_new(self) -> None:
        number = self.number_of("a - b")
        reach = Reach()
        reach.add(self.small, 0.1, {number}, 7.0)
        self.assertIsNone(noticed_by(number, reach, "src/base", 8.0))
        self.assertIn("small", str(noticed_by(number, reach, "src/base", 7.0)))

    def test_tests_of_the_own_room_come_first(self) -> None:
        tests = [Test("a", ("other_test", "--gtest_filter=A.a"), "/", ()),
                 Test("b", ("laws_test", "--gtest_filter=B.b"), "/", ())]
        calls = calls_of(tests, dict(zip(tests, (1.0, 2.0))), "src/laws")
        self.assertEqual([call.command[0] for call in calls], ["laws_test", "other_test"])

    def test_tests_of_one_program_share_a_process_and_the_quickest_comes_first(self) -> None:
        tests = [Test("a", ("p", "--gtest_filter=A.a"), "/", ()), Test("b", ("p", "--gtest_filter=B.b"), "/", ()),
                 Test("c", ("script",), "/", ())]
        calls = calls_of(tests, dict(zip(tests, (3.0, 2.0, 1.0))), "src/base")
        self.assertEqual([call.command[:2] for call in calls],
                         [("script",), ("p", "--gtest_filter=B.b:A.a")])


if __name__ == "__main__":
    unittest.main()
