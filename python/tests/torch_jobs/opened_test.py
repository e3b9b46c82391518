"""Which files of the program's own are recorded as it opens them."""
from __future__ import annotations

import builtins
import fcntl
import io
import os
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lockstep.torch import opened_files
from lockstep.torch.opened_files import MOST, Opened
from lockstep.torch.patches import Patches


class Noted(list[tuple[str, str]]):
    """A pen that keeps actions and names of files."""

    def snapshot(self, wrapper: int, action: str, step: int, path: str, digest: int) -> None:
        assert (wrapper, digest) == (-1, 0)
        assert step >= 0
        self.append((action, os.path.basename(path)))


def recorder_in(folder: Path, budget: float = 0.0) -> Any:
    return SimpleNamespace(pen=Noted(), current=SimpleNamespace(wrapper=-1, opt=0), in_file=0, folder=str(folder / "trace"),
                           looking=SimpleNamespace(budget=budget))


@pytest.mark.parametrize(("mode", "action"), [
    ("r", "open"), ("rb", "open"), ("rt", "open"),
    ("w", "write"), ("wb", "write"), ("w+", "write"), ("a", "extend"), ("at", "extend"), ("x", "extend"), ("r+b", "extend"),
])
def test_the_mode_says_what_becomes_of_a_file(tmp_path: Path, mode: str, action: str) -> None:
    recorder = recorder_in(tmp_path)
    Opened(recorder).note(tmp_path / "a.txt", mode)
    assert recorder.pen == [(action, "a.txt")]


def test_a_file_is_noted_once_a_step_and_kind(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    files = Opened(recorder)
    for _ in range(2):
        files.note("a.txt", "r")
        files.note("a.txt", "w")
    recorder.current.opt = 1
    files.note("a.txt", "r")
    files.note("a.txt", "r")
    files.note("a.txt", "a")
    assert recorder.pen == [("open", "a.txt"), ("write", "a.txt"), ("open", "a.txt"), ("extend", "a.txt")]


def test_what_is_no_file_of_the_program_is_left_alone(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    files = Opened(recorder)
    for path in (0, b"bytes", "/dev/null", "/proc/self/status", tmp_path / "trace" / "rank0.jsonl", "train.py",
                 "cache.lock", os.__file__, pytest.__file__.replace(".py", ".json")):
        files.note(path, "r")
    assert recorder.pen == []


def test_data_sets_of_many_files_end_at_a_limit_of_their_kind(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    files = Opened(recorder)
    for number in range(MOST + 5):
        files.note(f"{number}.png", "rb")
    files.note("log", "w")
    assert len(recorder.pen) == MOST + 1
    assert recorder.pen[-1] == ("write", "log")


def test_nothing_is_noted_without_a_trace_under_a_budget_or_inside_a_call_that_is_recorded(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path, budget=0.02)
    Opened(recorder).note("a.txt", "r")
    assert recorder.pen == []
    recorder = recorder_in(tmp_path)
    recorder.in_file = 1
    Opened(recorder).note("a.txt", "r")
    assert recorder.pen == []
    recorder = recorder_in(tmp_path)
    recorder.pen = None
    Opened(recorder).note("a.txt", "r")


def test_other_threads_are_in_no_order_with_calls(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    files = Opened(recorder)
    thread = threading.Thread(target=lambda: files.note("a.txt", "w"))
    thread.start()
    thread.join()
    assert recorder.pen == []


@pytest.mark.parametrize("lock", [fcntl.flock, fcntl.lockf])
def test_files_are_not_watched_after_a_lock(tmp_path: Path, lock: Any) -> None:
    recorder = recorder_in(tmp_path)
    recorder.patches = Patches()
    opened_files.install(recorder)
    try:
        with open(tmp_path / "a", "w") as file:
            getattr(fcntl, lock.__name__)(file, fcntl.LOCK_EX)
        with open(tmp_path / "a"):
            pass
    finally:
        recorder.patches.undo()
    assert recorder.pen == [("write", "a"), ("extend", "a")]
    assert fcntl.flock.__name__ == "flock"
    assert not hasattr(fcntl.flock, "__wrapped__")


def test_a_file_may_be_locked_by_its_number(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    with open(tmp_path / "a", "w") as file:
        Opened(recorder).note_lock(file.fileno())
    assert recorder.pen == [("extend", "a")]


def test_a_temporary_file_has_no_name(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    recorder.patches = Patches()
    opened_files.install(recorder)
    try:
        with tempfile.TemporaryFile(dir=tmp_path) as file:
            file.write(b"a")
    finally:
        recorder.patches.undo()
    assert recorder.pen == []


def test_open_is_put_back() -> None:
    real = builtins.open
    recorder: Any = SimpleNamespace(patches=Patches())
    opened_files.install(recorder)
    assert builtins.open is io.open
    assert builtins.open is not real
    recorder.patches.undo()
    assert builtins.open is real
    assert io.open is real
