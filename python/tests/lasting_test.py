"""How long jobs are silent, by a clock that these tests set."""
from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from lockstep import command, lasting


class Clock:
    """Stands in for the clock of this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(lasting, "monotonic", lambda: self.now)


def test_a_state_lasts_from_the_first_look_that_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    one = lasting.Lasting()
    seen = []
    for state in ("a", "a", "a", "b", "b", "a"):
        clock.now += 0.5
        seen.append(one.look(state))
    assert seen == [0.0, 0.5, 1.0, 0.0, 0.5, 0.0]


def test_a_pause_of_the_one_who_looks_counts_as_little(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    one = lasting.Lasting()
    one.look("a")
    clock.now += 3600
    assert one.look("a") == lasting.MOST_PER_LOOK_S
    clock.now += 1
    assert one.look("a") == lasting.MOST_PER_LOOK_S + 1


@pytest.mark.parametrize("paused_s, code", [(3600.0, 0), (1.0, -signal.SIGTERM)])
def test_a_job_that_was_paused_with_its_launcher_is_not_stuck(
        paused_s: float, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    # An hour goes by between two looks, once; its twin waits a second at each look, and for nothing.
    trace = tmp_path / "a000.rank-00000.jsonl"
    trace.write_text("")
    os.utime(trace, (1, 1))
    recording = command.Recording(tmp_path, "trace", 10.0, None)
    clock = Clock(monkeypatch)
    real = command._last_record
    looks = []

    def look(folder: Path) -> int:
        looks.append(folder)
        if paused_s < 3600 or len(looks) == 2:
            clock.now += paused_s
        return real(folder)

    monkeypatch.setattr(command, "_last_record", look)
    with subprocess.Popen(["sleep", "3" if paused_s == 3600 else "600"]) as job:
        assert recording._wait(job) == code
    assert ("ending the job" in capsys.readouterr().err) == (code != 0)
    assert len(looks) > 2
