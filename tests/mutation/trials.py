"""Which tests reach a defect, and whether one of them notices it."""
from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

MOST_TESTS_A_CALL = 400
LEAST_TIMEOUT_S = 20.0
PATIENCE = 10.0  # A test that takes this many times as long does not end.
OWN_FIRST = 0.05  # How much of its time a test of the defect's own room seems to take, when calls are put in order.
# A defect may allocate, or write, without end.
MOST_MEMORY = 24 << 30  # Of addresses: tests of many ranks reserve stacks that they do not touch.
MOST_BYTES_OF_A_FILE = 1 << 30
MOST_OUTPUT_READ = 1 << 20
MOST_LOOKS = 1000  # For processes that a test left, ten milliseconds apart.
_FILTER = re.compile(r"--gtest_filter=(\S+)$")
_FAILED = re.compile(r"\[  FAILED  \] ([\w./]+)")
SKIPPED_BY = 77
TIMED_OUT = 124


@dataclass(frozen=True)
class Test:
    """One entry of ctest's."""

    name: str
    command: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str], ...]
    will_fail: bool = False
    passes_with: str = ""  # Whatever its exit code, where its output matches.
    source: str = ""  # The file that it is, where its command does not name it.

    @property
    def gtest(self) -> str | None:
        """The name within its program, where it is one of GoogleTest's."""
        for word in self.command[1:]:
            if found := _FILTER.match(word):
                return found.group(1)
        return None

    def is_of(self, room: str) -> bool:
        """Its name, or its program's, says that it is about the room."""
        last = room.split("/")[-1]
        return last in Path(self.command[0]).name or self.name.startswith(last)


@dataclass
class Reach:
    """What a run of the healthy suite showed: which defects each test reaches, and its time."""

    seconds: dict[Test, float] = field(default_factory=dict)
    mutants: dict[Test, set[int]] = field(default_factory=dict)
    when: dict[Test, float] = field(default_factory=dict)  # It was measured, as seconds since the epoch.
    failed: list[str] = field(default_factory=list)  # Without any defect: not asked again.

    def add(self, test: Test, seconds: float, reached: set[int], when: float) -> None:
        if reached:
            self.seconds[test] = seconds
            self.mutants[test] = reached
            self.when[test] = when

    def tests_of(self, number: int, since: float = 0.0) -> list[Test]:
        """Those that reach it and were measured since then."""
        return [test for test, reached in self.mutants.items() if number in reached and self.when[test] >= since]


@dataclass(frozen=True)
class Ended:
    """How a test's process ended. status: its exit code; TIMED_OUT."""

    status: int
    output: str
    seconds: float

    @property
    def is_ok(self) -> bool:
        return self.status in (0, SKIPPED_BY)


def tests_of(build: Path, leave_out: re.Pattern[str]) -> list[Test]:
    """All of ctest's tests but those whose names match."""
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                            capture_output=True, text=True, check=True).stdout
    found = []
    for entry in json.loads(listed)["tests"]:
        if "command" not in entry or leave_out.search(entry["name"]):
            continue
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        variables = tuple((text.split("=", 1)[0], text.split("=", 1)[1])
                          for text in properties.get("ENVIRONMENT", []))
        whole = Test(entry["name"], tuple(entry["command"]),
                     properties.get("WORKING_DIRECTORY", str(build)), variables,
                     bool(properties.get("WILL_FAIL", False)),
                     "|".join(properties.get("PASS_REGULAR_EXPRESSION", [])))
        found += _by_file(whole) or [whole]
    return found


def _by_file(test: Test) -> list[Test]:
    """The long suites of the Python package, file by file: most defects are reached by few of them."""
    suite = {"python.torch": "torch_jobs", "python.virtual": "virtual"}.get(test.name)
    if suite is None:
        return []
    files = sorted(Path(test.command[1]).parent.joinpath(suite).glob("*_test.py"))
    return [replace(test, name=f"{test.name}/{file.stem}", command=(*test.command, "-x", "-k", file.stem),
                    source=str(file))
            for file in files]


def bound_resources() -> None:
    """Of this process, and of all that it starts from now on."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES_OF_A_FILE, MOST_BYTES_OF_A_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ended(test: Test, command: tuple[str, ...], more: dict[str, str], limit: float | None) -> Ended:
    """Runs the command in the test's surroundings; nothing that it started or left among temporary files stays."""
    # A short path: sockets lie below, and the path of a socket has at most 107 bytes.
    with (tempfile.TemporaryDirectory(prefix="m", ignore_cleanup_errors=True) as folder,
          tempfile.TemporaryFile() as output):
        environment = {**os.environ, "RC_PARAMS": "seed=1", **dict(test.environment), **more,
                       "TMPDIR": folder}
        begin = time.monotonic()
        with subprocess.Popen(command, cwd=test.folder, stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.STDOUT, env=environment, start_new_session=True) as process:
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = TIMED_OUT
                os.killpg(process.pid, signal.SIGKILL)
        seconds = time.monotonic() - begin
        _end_those_left(f"TMPDIR={folder}")
        output.seek(max(0, output.seek(0, os.SEEK_END) - MOST_OUTPUT_READ))
        text = output.read().decode(errors="replace")
        return Ended(status if status == TIMED_OUT else _as_expected(test, status, text), text, seconds)


def _as_expected(test: Test, status: int, output: str) -> int:
    """The exit code as ctest sees it."""
    if test.passes_with:
        return 0 if re.search(test.passes_with, output) else status or 1
    if test.will_fail:
        return 0 if status != 0 else 1
    return status


def _end_those_left(mark: str) -> None:
    """Kills processes with an environment that has, or has something that begins with, this; until none is left."""
    for _ in range(MOST_LOOKS):
        left = [place for place in Path("/proc").glob("[0-9]*") if _may_be_of(place, mark.encode())]
        if not left:
            return
        time.sleep(0.01)


def _may_be_of(place: Path, mark: bytes) -> bool:
    """Whether a process is, or may be, one of these: kills it where it is. What begins another program has no
    environment for that moment; processes of the kernel (children of number 2) and those that have ended never have one."""
    try:
        environment = (place / "environ").read_bytes()
        if mark in environment:
            os.kill(int(place.name), signal.SIGKILL)
            return True
        state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
        return not environment and state != "Z" and "2" not in (parent, place.name)
    except OSError:
        return False  # It ended, or is another user's.


def measured(test: Test) -> tuple[Ended, set[int]]:
    """The test with no defect switched on, and which ones it reaches."""
    with tempfile.TemporaryDirectory() as folder:
        map_file = Path(folder, "reached")
        how = ended(test, test.command, {"LOCKSTEP_MUTANTS_REACHED": str(map_file)}, None)
        bytes_ = map_file.read_bytes() if map_file.exists() else b""
    return how, {found.start() for found in re.finditer(rb"[^\0]", bytes_)}


@dataclass(frozen=True)
class Call:
    """Tests that one process runs, the quickest first; it ends at the first that fails."""

    tests: tuple[Test, ...]
    seconds: float

    @property
    def command(self) -> tuple[str, ...]:
        first = self.tests[0]
        if first.gtest is None:
            return first.command
        names = ":".join(str(test.gtest) for test in self.tests)
        return (first.command[0], f"--gtest_filter={names}", "--gtest_fail_fast", "--gtest_brief=1",
                "--gtest_also_run_disabled_tests")

    def without(self, failed: str | None) -> Call | None:
        """None: nothing is left of it. `failed`: one of its tests; None: all of them."""
        left = tuple(test for test in self.tests if failed is not None and test.gtest != failed)
        return Call(left, self.seconds) if left and len(left) < len(self.tests) else None

    def only(self, failed: str | None) -> Call:
        return Call(tuple(test for test in self.tests if test.gtest == failed) or self.tests, self.seconds)


def calls_of(tests: list[Test], seconds: dict[Test, float], room: str) -> list[Call]:
    """Few processes for many tests: those of the defect's own room, and the quickest, first."""
    together: dict[object, list[Test]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: seconds[test]):
        together[test if test.gtest is None else (test.command[0], test.folder, test.environment)].append(test)
    calls = [Call(tuple(same[at:at + MOST_TESTS_A_CALL]),
                  sum(seconds[test] for test in same[at:at + MOST_TESTS_A_CALL]))
             for same in together.values() for at in range(0, len(same), MOST_TESTS_A_CALL)]
    return sorted(calls, key=lambda call: call.seconds * (OWN_FIRST if call.tests[0].is_of(room) else 1.0))


def noticed_by(number: int, reach: Reach, room: str, since: float = 0.0) -> str | None:
    """The test that fails with this defect switched on, and does not without it; None: it survives.

    since: it survived all tests then; only those that are new, or have changed, are asked.
    """
    for whole in calls_of(reach.tests_of(number, since), reach.seconds, room):
        call: Call | None = whole
        while call is not None:
            how = _tried(call, number)
            if how.is_ok:
                break
            found = _FAILED.search(how.output)
            failed = found.group(1) if found else None
            if _is_due_to(number, call.only(failed), how):
                return _named(call, failed, how)
            call = call.without(failed)  # A test that fails by itself now and then says nothing.
    return None


def _tried(call: Call, number: int | None) -> Ended:
    """None: with a switch that belongs to no defect. A test may look at its environment."""
    more = {"LOCKSTEP_MUTANT": str(-1 if number is None else number)}
    return ended(call.tests[0], call.command, more, LEAST_TIMEOUT_S + PATIENCE * call.seconds)


def _is_due_to(number: int, call: Call, how: Ended) -> bool:
    """The same tests pass without the defect, and fail with it again (unless that never ends)."""
    return _tried(call, None).is_ok and (how.status == TIMED_OUT or not _tried(call, number).is_ok)


def _named(call: Call, failed: str | None, how: Ended) -> str:
    name = call.tests[0].name if len(call.tests) == 1 else f"{Path(call.tests[0].command[0]).name}"
    if how.status == TIMED_OUT:
        return f"{name} (does not end)"
    return failed or f"{name} (exit {how.status})"
