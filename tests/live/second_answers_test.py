#!/usr/bin/env python3
"""A job with two answers of PyTorch is excused once in a hundred jobs; every other difference fails."""
from __future__ import annotations

import unittest

from second_answers import MOST_ASKED, Answer, compare


class FakePyTorch:
    """Answers "1" to every job, and the second time what it was given."""

    def __init__(self, second: dict[str, Answer]) -> None:
        self.second = second
        self.asked: list[str] = []

    def __call__(self, job: str) -> Answer:
        self.asked.append(job)
        return self.second.get(job, {"grad": "1"})


def jobs_named(n: int) -> list[str]:
    return [f"job={i}" for i in range(n)]


class SecondAnswers(unittest.TestCase):
    def judged(self, n_jobs: int, ours: dict[str, Answer], second: dict[str, Answer]):
        jobs = jobs_named(n_jobs)
        self.pytorch = FakePyTorch(second)
        return compare(jobs, [{"grad": "1"} for _ in jobs], [ours.get(job, {"grad": "1"}) for job in jobs], self.pytorch)

    def test_equal_answers_hold_without_a_second_question(self):
        compared = self.judged(100, {}, {})
        self.assertTrue(compared.holds)
        self.assertEqual((100, []), (compared.n_equal, self.pytorch.asked))

    def test_a_job_whose_second_answer_is_ours_is_excused_and_named(self):
        compared = self.judged(100, {"job=7": {"grad": "2"}}, {"job=7": {"grad": "2"}})
        self.assertTrue(compared.holds)
        self.assertEqual(99, compared.n_equal)
        self.assertEqual([("job=7", [("grad", "1", "2")])], compared.with_two_answers)
        self.assertEqual(["job=7"], self.pytorch.asked)

    def test_a_job_whose_second_answer_is_the_first_again_fails(self):
        compared = self.judged(100, {"job=7": {"grad": "2"}}, {})
        self.assertFalse(compared.holds)
        self.assertEqual([("job=7", [("grad", "1", "2")])], compared.wrong)

    def test_a_third_answer_fails(self):
        self.assertFalse(self.judged(100, {"job=7": {"grad": "2"}}, {"job=7": {"grad": "3"}}).holds)

    def test_two_jobs_of_a_hundred_with_two_answers_fail(self):
        other = {f"job={i}": {"grad": "2"} for i in (7, 8)}
        compared = self.judged(100, other, other)
        self.assertFalse(compared.holds)
        self.assertEqual([], compared.wrong)
        self.assertTrue(self.judged(200, other, other).holds)

    def test_a_missing_list_is_a_difference(self):
        compared = self.judged(1, {"job=0": {}}, {})
        self.assertEqual([("job=0", [("grad", "1", "(nothing)")])], compared.wrong)

    def test_no_more_jobs_are_asked_again_than_can_change_the_verdict(self):
        compared = self.judged(100, {job: {"grad": "2"} for job in jobs_named(100)}, {})
        self.assertFalse(compared.holds)
        self.assertEqual(jobs_named(MOST_ASKED), self.pytorch.asked)

    def test_answers_that_are_too_few_are_refused(self):
        with self.assertRaises(ValueError):
            compare(jobs_named(2), [{}, {}], [{}], FakePyTorch({}))


if __name__ == "__main__":
    unittest.main()
