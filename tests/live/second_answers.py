"""Jobs for which PyTorch gives two answers: a race inside PyTorch is not a difference of ours.

PyTorch is asked once more for a job that differs, and for that job alone. If its second answer equals ours, the job
counts as one with two answers. At most one job of a hundred may be one; more of them are a difference that must be
looked at.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Answer = dict[str, str]
Difference = tuple[str, str, str]  # The key, PyTorch's text, ours.

MOST_ASKED = 3  # With more differences no second answer changes the verdict, and asking takes seconds.


def differences(expected: Answer, got: Answer) -> list[Difference]:
    keys = sorted(set(expected) | set(got), key=lambda key: (key[0] != "x", key))
    return [(key, expected.get(key, "(nothing)"), got.get(key, "(nothing)"))
            for key in keys if expected.get(key) != got.get(key)]


@dataclass
class Comparison:
    """How our answers compare with PyTorch's."""

    n_jobs: int
    wrong: list[tuple[str, list[Difference]]] = field(default_factory=list)  # By job.
    with_two_answers: list[tuple[str, list[Difference]]] = field(default_factory=list)

    @property
    def n_equal(self) -> int:
        return self.n_jobs - len(self.wrong) - len(self.with_two_answers)

    @property
    def holds(self) -> bool:
        return not self.wrong and len(self.with_two_answers) <= max(1, self.n_jobs // 100)


def compare(jobs: list[str], expected: list[Answer], ours: list[Answer], ask_again: Callable[[str], Answer]) -> Comparison:
    """`ask_again` returns PyTorch's answer to one job, computed anew."""
    compared = Comparison(len(jobs))
    n_asked = 0
    for job, first, own in zip(jobs, expected, ours, strict=True):
        found = differences(first, own)
        if not found:
            continue
        is_asked = n_asked < MOST_ASKED
        n_asked += is_asked
        if is_asked and not differences(ask_again(job), own):
            compared.with_two_answers.append((job, found))
        else:
            compared.wrong.append((job, found))
    return compared
