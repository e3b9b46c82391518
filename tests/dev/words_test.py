#!/usr/bin/env python3
"""./dev refuses words, parts and numbers that it does not know, before it installs, builds or runs anything.

  words_test.py DEV     DEV: the script
"""
import subprocess
import sys
import unittest

DEV = sys.argv.pop(1)
SECONDS = 20  # A build takes minutes.


def dev(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([DEV, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)


class Words(unittest.TestCase):
    def refused(self, *arguments: str, why: str) -> None:
        ran = dev(*arguments)
        self.assertEqual((2, "", f"dev: {why}\n"), (ran.returncode, ran.stdout, ran.stderr))

    def test_a_word_that_is_nearly_one_of_them_is_answered_with_that_one(self):
        self.refused("biuld", why="unknown word 'biuld'; did you mean 'build'?")

    def test_a_word_like_no_other_is_answered_with_where_words_are_listed(self):
        self.refused("xyzzyxyzzy", why="unknown word 'xyzzyxyzzy'; see ./dev help")

    def test_a_part_of_the_benchmarks_is_refused_before_they_are_built(self):
        self.refused("bench", "trainig", why="unknown part 'trainig'; did you mean 'training'?")

    def test_a_part_with_a_program_of_its_own_is_not_mixed_with_others(self):
        self.refused("bench", "training", "spread", why="unknown part 'spread'; see ./dev help")

    def test_fuzzers_run_for_a_number_of_seconds(self):
        for typed in ("5m", "0", "-1", ""):
            self.refused("fuzz", typed, why=f"'{typed}' is not a number of seconds: ./dev fuzz [SECONDS]")

    def test_help_of_a_word_with_a_program_of_its_own_is_that_programs(self):
        self.assertIn("--sample", dev("mutate", "--help").stdout)

    def test_help_of_any_other_word_is_the_list_of_words_and_does_nothing_else(self):
        usage = dev("help")
        self.assertIn("usage: ./dev WORD", usage.stdout)
        for arguments in (["--help"], ["bench", "--help"], ["test", "-h"], ["soak", "--help"]):
            ran = dev(*arguments)
            self.assertEqual((0, usage.stdout, ""), (ran.returncode, ran.stdout, ran.stderr), arguments)


if __name__ == "__main__":
    unittest.main()
