"""A job has the descriptors that its ranks need, or is refused before any rank is made."""
from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest
from lockstep.virtual import descriptors
from virtual_job import prepare, printed, run_virtual, write


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The two limits of this process, which a test may set."""
    now = [1024, 4096]
    monkeypatch.setattr("resource.getrlimit", lambda kind: tuple(now))
    monkeypatch.setattr("resource.setrlimit", lambda kind, given: now.__setitem__(slice(None), given))
    return now


@pytest.mark.parametrize(("passed", "needed"), [(False, 600 + 128), (True, 700 + 128)])
def test_the_limit_is_raised_to_what_the_ranks_need(passed: bool, needed: int, limits: list[int]) -> None:
    limits[0] = needed - 1
    descriptors.require(100, passed)
    assert limits == [needed, 4096]


@pytest.mark.parametrize("soft", [600 + 128, resource.RLIM_INFINITY])
def test_a_limit_that_suffices_is_left_alone(soft: int, limits: list[int]) -> None:
    limits[:] = [soft, 4096]
    descriptors.require(100)
    assert limits == [soft, 4096]


def test_more_ranks_than_there_are_descriptors_for_are_refused_with_both_numbers(limits: list[int]) -> None:
    with pytest.raises(OSError, match="661 ranks need 4094 descriptors, and this process may have 4093 .ulimit -Hn.") as refused:
        limits[1] = 4093
        descriptors.require(661)
    assert refused.value.errno == errno.EMFILE
    limits[1] = 4094
    descriptors.require(661)
    assert limits == [4094, 4094]


def test_a_hard_limit_may_be_missing(limits: list[int]) -> None:
    limits[1] = resource.RLIM_INFINITY
    descriptors.require(1000)
    assert limits == [6128, resource.RLIM_INFINITY]


@pytest.mark.parametrize(("ranks", "options"), [(24, ()), (3, ("--separate",))])
def test_a_job_opens_no_more_than_is_counted(ranks: int, options: tuple[str, ...], tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    prepare()
    script = write(tmp_path, "import torch.distributed as dist\ndist.init_process_group('gloo')\ndist.barrier()\n")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/proc/self/fd")) + 16  # Also for the trace, and what one start needs for a moment.
    monkeypatch.setattr(descriptors, "OTHERS", few)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        outcome = run_virtual(script, ranks, *options)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert outcome.ok, printed(outcome)
