#!/usr/bin/env python3
"""Splits commands over shards: `lockstep merge` must say, write and return what one process does.

usage: merge_test.py LOCKSTEP [TESTS]
"""

import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOCKSTEP = str(Path(sys.argv[1]).resolve())
RACE = str(ROOT / "scenarios" / "zoo" / "overlap_race.toml")
HEALTHY = str(ROOT / "scenarios" / "healthy" / "any_schedule.toml")
BUG = 'bug=[{kind="scale-gradient", ranks=[1], factor=3.0, at={event="backward"}}]'

# Rank 2 writes into memory that a transfer reads, and no law may say so: only the results differ.
DIVERGING = """format = 1
title = "a write during a transfer that no law checks"
world = { ranks = 3 }
policy = { allow = ["in-flight-untouched"] }
tensor.grad = { shape = [6], fill = 1 }
program = [
  { ranks = [0, 1], body = [ { op = "all_reduce", tensor = "grad", async = "w" }, { op = "wait", work = "w" } ] },
  { ranks = [2], body = [ { op = "all_reduce", tensor = "grad", async = "w" }, { op = "compute", ns = 1 },
      { op = "write", tensor = "grad", value = 0 }, { op = "wait", work = "w" } ] },
  { ranks = [0, 1], body = [ { op = "read", tensor = "grad" } ] },
]
"""


def lockstep(folder, *words):
    return subprocess.run([LOCKSTEP, *map(str, words)], cwd=folder, capture_output=True, text=True,
                          timeout=200, check=False)


def files_below(folder):
    """Everything a command wrote, by name."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(Path(folder).rglob("*")) if path.is_file()}


class MergeTest(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="lockstep-merge-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def room(self, name):
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def parts(self, where, count, *words):
        """The parts of a command, last shard first, as separate processes make them."""
        files = []
        for number in range(count, 0, -1):
            done = lockstep(self.room(where), *words, "--shard", f"{number}/{count}", "--part",
                            f"{number}.jsonl")
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertIn(f"shard {number}/{count}: ", done.stdout)
            files.append(f"{number}.jsonl")
        return files

    def expect_same(self, code, *words, more=()):
        """`more`: words that `merge` takes, too."""
        whole = lockstep(self.room("whole"), *words, *more)
        self.assertEqual(whole.returncode, code, whole.stderr)
        for count in (1, 2, 5):
            where = f"of-{count}"
            files = self.parts(where, count, *words)
            merged = lockstep(self.folder / where, "merge", *files, *more)
            self.assertEqual((merged.returncode, merged.stdout), (code, whole.stdout), merged.stderr)
            written = files_below(self.folder / where)
            for name, contents in files_below(self.folder / "whole").items():
                self.assertEqual(written.get(name), contents, name)

    def test_a_search_without_a_failure_comes_to_the_same(self):
        self.expect_same(0, "explore", HEALTHY, "--runs", 40, "--seeds", 2, "--vary")

    def test_a_search_with_a_failure_comes_to_the_same_files(self):
        self.expect_same(1, "explore", RACE, "--runs", 40)

    def test_results_that_depend_on_the_schedule_come_to_the_same(self):
        scenario = self.folder / "diverging.toml"
        scenario.write_text(DIVERGING, encoding="utf-8")
        self.expect_same(1, "explore", scenario, "--runs", 30)
        self.assertIn("the result depends on the schedule",
                      lockstep(self.room("look"), "explore", scenario, "--runs", 30).stdout)

    def test_a_search_comes_to_the_same_object(self):
        self.expect_same(1, "explore", RACE, "--runs", 20, more=["--json"])
        self.expect_same(0, "explore", HEALTHY, "--runs", 20, more=["--json"])

    def test_a_mark_that_no_shard_reached_is_a_finding_of_the_whole(self):
        swarm = ROOT / "scenarios" / "faults" / "swarm.toml"
        words = ("explore", swarm, "--runs", 4, "--set", "swarm.faults=1")
        self.expect_same(1, *words)
        done = lockstep(self.room("one"), *words, "--shard", "1/2", "--part", "1.jsonl")
        self.assertEqual(done.returncode, 0, "one shard cannot know what the others reach")

    def test_random_jobs_come_to_the_same(self):
        self.expect_same(0, "explore", "--jobs", 60, "--seed", 3, "--first", 11)

    def test_false_alarms_come_to_the_same_files(self):
        self.expect_same(1, "explore", "--jobs", 30, "--seed", 5, "--set", BUG)

    def test_kept_jobs_are_tried_by_the_shard_they_belong_to(self):
        words = ("explore", "--jobs", 12, "--seed", 5, "--set", BUG)
        kept = self.folder / "kept"
        first = lockstep(self.room("first"), *words, "--regressions", kept)
        self.assertEqual(first.returncode, 1)
        self.assertGreater(len(list(kept.iterdir())), 2)
        whole = lockstep(self.room("again"), *words, "--regressions", kept)
        self.assertIn("kept failures: ", whole.stdout)
        files = self.parts("split", 3, *words, "--regressions", kept)
        merged = lockstep(self.folder / "split", "merge", *files, "--regressions", kept)
        self.assertEqual((merged.returncode, merged.stdout), (1, whole.stdout), merged.stderr)

    def test_the_zoo_comes_to_the_same(self):
        folder = ROOT / "scenarios" / "averages"
        self.expect_same(0, "zoo", folder)
        self.expect_same(0, "zoo", folder, more=["--json"])

    def test_a_failure_kept_by_one_process_is_tried_first_by_the_shards(self):
        words = ("explore", RACE, "--runs", 10, "--regressions", self.folder / "kept")
        first = lockstep(self.room("first"), *words)
        self.assertEqual(first.returncode, 1)
        whole = lockstep(self.room("again"), *words)
        self.assertIn("a kept failure recurs, run 1", whole.stdout)
        files = self.parts("split", 3, *words)
        merged = lockstep(self.folder / "split", "merge", *files, *words[-2:])
        self.assertEqual((merged.returncode, merged.stdout), (1, whole.stdout), merged.stderr)

    def test_failures_of_later_shards_are_named_and_kept(self):
        # One job hangs under every schedule, and under some of them something else is seen first.
        files = self.parts("split", 4, "explore", RACE, "--runs", 8)
        merged = lockstep(self.folder / "split", "merge", *files)
        self.assertIn("the same failure occurred in other shards: run 2, 3, 4", merged.stderr)
        kept = list((self.folder / "split" / "lockstep-out" / "regressions").iterdir())
        self.assertEqual(len(kept), 1, "one of each kind")

    def refuse(self, said, *words):
        merged = lockstep(self.folder / "split", "merge", *words)
        self.assertEqual((merged.returncode, merged.stdout), (2, ""), merged.stderr)
        self.assertRegex(merged.stderr, said)
        self.assertFalse((self.folder / "split" / "lockstep-out").exists())

    def test_parts_that_do_not_belong_together_are_refused(self):
        one, two, three = sorted(self.parts("split", 3, "explore", HEALTHY, "--runs", 9))
        self.refuse(r"^1\.jsonl:1:\d+: parts are missing: 2/3\n$", one, three)
        self.refuse(r"^2\.jsonl:1:\d+: shard 2/3 is there twice: 2\.jsonl is it, too\n$",
                    one, two, two, three)
        for name, words in {
                "seeds": ("explore", HEALTHY, "--runs", 9, "--seeds", 2),
                "runs": ("explore", HEALTHY, "--runs", 10),
                "scenario": ("explore", RACE, "--runs", 9),
                "set": ("explore", HEALTHY, "--runs", 9, "--set", "world.ranks=3"),
                "strategy": ("explore", HEALTHY, "--runs", 9, "--strategy", "uniform"),
                "work": ("explore", "--jobs", 9, "--seed", 1),
                "shard": None}.items():
            split = "2/4" if words is None else "2/3"
            words = words or ("explore", HEALTHY, "--runs", 9)
            lockstep(self.folder / "split", *words, "--shard", split, "--part", f"{name}.jsonl")
            self.refuse(rf"^{name}\.jsonl:1:\d+: this part has ", one, f"{name}.jsonl", three)

    def test_parts_of_another_seed_or_of_other_scenarios_are_refused(self):
        lockstep(self.room("split"), "explore", "--jobs", 9, "--seed", 1, "--shard", "1/2",
                 "--part", "1.jsonl")
        lockstep(self.folder / "split", "explore", "--jobs", 9, "--seed", 2, "--shard", "2/2",
                 "--part", "2.jsonl")
        self.refuse(r"^2\.jsonl:1:\d+: this part has --seed 2, 1\.jsonl has 1\n$", "1.jsonl", "2.jsonl")
        lockstep(self.folder / "split", "zoo", ROOT / "scenarios" / "averages", "--shard", "1/2",
                 "--part", "1.jsonl")
        lockstep(self.folder / "split", "zoo", ROOT / "scenarios" / "jobs", "--shard", "2/2",
                 "--part", "2.jsonl")
        self.refuse(r"^2\.jsonl:1:\d+: this part has folder ", "1.jsonl", "2.jsonl")

    def test_a_scenario_that_changed_since_is_refused(self):
        scenario = self.room("split") / "job.toml"
        text = Path(HEALTHY).read_text(encoding="utf-8")
        scenario.write_text(text, encoding="utf-8")
        files = self.parts("split", 2, "explore", "job.toml", "--runs", 6)
        scenario.write_text(text + "\n", encoding="utf-8")
        self.refuse(r"^1\.jsonl:1:\d+: the runs used a different version of job\.toml from the present one\n$", *files)

    def test_a_part_that_was_edited_is_refused_with_its_place(self):
        one, two = sorted(self.parts("split", 2, "explore", HEALTHY, "--runs", 6))
        path = self.folder / "split" / two
        lines = path.read_text(encoding="utf-8").splitlines()
        runs = [i for i, line in enumerate(lines) if line.startswith('{"run":')]
        for said, number, line in (
                (r"2\.jsonl:\d+:1: not valid JSON", runs[0], ""),
                (r"2\.jsonl:\d+:1: a line must be a JSON object", runs[0], "[]"),
                (r"2\.jsonl:\d+:2: run 2 of shard 2/2 belongs here", runs[0], '{"run":0,"skipped":true}'),
                (r"2\.jsonl:\d+:\d+: 'end' must hold hex digits", runs[1],
                 lines[runs[1]].replace('"end":"', '"end":"xyz')),
                (r"2\.jsonl:\d+:\d+: no line before this one says what it reached", runs[1],
                 lines[runs[1]].replace('"reached":0', '"reached":9')),
                (r"2\.jsonl:\d+:\d+: 'picks' must have four numbers", runs[1],
                 lines[runs[1]].replace('"picks":[', '"picks":[1,')),
                (r"run 6 is of inputs that this scenario does not have", runs[2],
                 lines[runs[2]].replace('"input":0', '"input":77')),
                (r"run 6 does not fail here as its part says: 'it burns'", runs[2],
                 lines[runs[2]].replace('"reached":0', '"reached":0,"failure":"it burns"'))):
            edited = [*lines[:number], line, *lines[number + 1:]]
            self.assertNotEqual(edited, lines)
            path.write_text("".join(f"{each}\n" for each in edited), encoding="utf-8")
            self.refuse(said, one, two)
        # A run that is gone, with a last line that agrees.
        edited = [*lines[:runs[2]], json.dumps({"end": len(lines) - 3})]
        path.write_text("".join(f"{each}\n" for each in edited), encoding="utf-8")
        self.refuse(r"2\.jsonl:1:\d+: run 6 is missing, although no run before it failed", one, two)

    def test_a_part_with_a_changed_byte_never_ends_in_a_crash(self):
        one, two = sorted(self.parts("split", 2, "explore", RACE, "--runs", 6))
        path = self.folder / "split" / two
        whole = path.read_bytes()
        draw = random.Random(7)
        for _ in range(150):
            damaged = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                damaged[draw.randrange(len(damaged))] = draw.choice(b'0123456789"{}[],:x\\\n')
            path.write_bytes(damaged)
            merged = lockstep(self.folder / "split", "merge", one, two)
            self.assertIn(merged.returncode, (0, 1, 2), merged.stderr)
            if merged.returncode == 2:
                self.assertEqual(len(merged.stderr.strip().splitlines()), 1, merged.stderr)
                self.assertEqual(merged.stdout, "")

    def test_edited_parts_of_jobs_and_of_the_zoo_are_refused_with_their_place(self):
        one, two = sorted(self.parts("split", 2, "explore", "--jobs", 8, "--seed", 5, "--set", BUG))
        path = self.folder / "split" / two
        text = path.read_text(encoding="utf-8")
        job = text.split('{"job":"', 1)[1].split('"', 1)[0]
        path.write_text(text.replace(f'"job":"{job}"', '"job":"0"'), encoding="utf-8")
        self.refuse(r"^2\.jsonl:\d+:2: no job of this shard", one, two)
        path.write_text(text.replace('"complaint":"', '"complaint":"not so, ', 1), encoding="utf-8")
        self.refuse(rf"job {job} does not fail here as its part says: 'not so, ", one, two)

        one, two = sorted(self.parts("split", 2, "zoo", ROOT / "scenarios" / "averages"))
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('{"row":1,', '{"row":2,'), encoding="utf-8")
        self.refuse(r"^2\.jsonl:2:2: row 1 of shard 2/2 belongs here\n$", one, two)
        path.write_text(text.replace('"verdict":"', '"verdict":"quite ', 1), encoding="utf-8")
        self.refuse(r"^2\.jsonl:2:\d+: unknown verdict 'quite ", one, two)

    def test_words_that_do_not_fit_are_refused(self):
        for words, said in (
                (("explore", HEALTHY, "--shard", "1/2"), "--shard requires --part"),
                (("explore", HEALTHY, "--part", "1.jsonl"), "--part requires --shard"),
                (("explore", HEALTHY, "--shard", "3/2", "--part", "1.jsonl"),
                 "--shard: '3/2' is not a shard; 1/8 is the first of eight"),
                (("explore", HEALTHY, "--shard", "1/2", "--part", "no/1.jsonl"), "there is no folder "),
                (("zoo", "--shard", "x", "--part", "1.jsonl"), "--shard: 'x' is not a shard"),
                (("explore", HEALTHY, "--strategy", "exhaustive", "--shard", "1/2", "--part", "1.jsonl"),
                 "exhaustive cannot be split"),
                (("explore", HEALTHY, "--strategy", "pct:depth=3", "--shard", "1/2", "--part", "1.jsonl"),
                 "pct learns from earlier runs"),
                (("explore", HEALTHY, "--json", "--shard", "1/2", "--part", "1.jsonl"),
                 "a shard prints no JSON; `lockstep merge --json` does"),
                (("merge",), "PART is required"),
                (("merge", "absent.jsonl"), "absent.jsonl: cannot read this file")):
            done = lockstep(self.room("words"), *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(said, done.stderr)
            self.assertEqual(list((self.folder / "words").iterdir()), [])


if __name__ == "__main__":
    sys.exit(unittest.main(argv=[sys.argv[0], *sys.argv[2:]]))
