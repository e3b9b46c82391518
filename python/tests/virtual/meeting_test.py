"""When processes that wait to become ranks wait in vain: only where no process is left, and none will be started, that
could be one of the others."""
from __future__ import annotations

import select
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lockstep.virtual.meeting import GoesOn, Meeting, Started, Waits, Wanted, knock
from lockstep.virtual.spawn_request import Files

Sleeper = subprocess.Popen  # A process that ends when its input does.


@pytest.fixture
def sleepers() -> Iterator[list[Sleeper[bytes]]]:
    """Two processes that are alive."""
    both = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(2)]
    yield both
    for each in both:
        finish(each)


def finish(process: Sleeper[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


@pytest.fixture
def meeting(tmp_path: Path, sleepers: list[Sleeper[bytes]]) -> Iterator[Meeting]:
    """The script has started both, and the first has come as rank 0 of 2. The folder's name is longer than a socket's may be."""
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    files = Files(str(folder))
    made = Meeting(files)
    for line, each in enumerate(sleepers):
        made.note(Started(each.pid, f"job.py:{line}"))
    come = threading.Thread(target=knock, args=(files, Wanted(sleepers[0].pid, 0, 2, "job.py:1")))
    come.start()
    assert select.select([made.listener], [], [], 60)[0]
    made.accept()
    yield made
    for member in made.take()[1].values():
        member.refuse("over")
    made.close()
    come.join()


def test_a_process_that_has_not_come_may_come_yet(meeting: Meeting, sleepers: list[Sleeper[bytes]]) -> None:
    meeting.note(Waits(sleepers[0].pid))
    assert not meeting.is_complete() and not meeting.is_in_vain(script_ended=False)
    assert not meeting.is_in_vain(script_ended=True)


def test_a_meeting_is_in_vain_where_the_script_waits_for_a_process_that_has_come(
        meeting: Meeting, sleepers: list[Sleeper[bytes]]) -> None:
    finish(sleepers[1])
    meeting.drop_ended()
    assert not meeting.is_in_vain(script_ended=False)
    meeting.note(Waits(sleepers[0].pid))
    assert meeting.is_in_vain(script_ended=False)
    meeting.note(GoesOn())
    assert not meeting.is_in_vain(script_ended=False)
    assert meeting.is_in_vain(script_ended=True)


def test_a_script_whose_process_has_just_ended_may_start_another(meeting: Meeting, sleepers: list[Sleeper[bytes]]) -> None:
    meeting.note(Waits(sleepers[1].pid))
    finish(sleepers[1])
    meeting.drop_ended()
    assert not meeting.is_in_vain(script_ended=False), "its notice that it goes on is under way"
