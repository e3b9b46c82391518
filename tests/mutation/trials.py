"""Which tests reach a defect, and whether one of them notices it."""
from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

MOST_TESTS_A_CALL = 400
LEAST_TIMEOUT_S = 20.0
PATIENCE = 10.0  # A test that takes this many times as long does not end.
_FILTER = re.compile(r"--gtest_filter=(\S+)$")
_FAILED = re.compile(r"\[  FAILED  \] ([\w./]+)")
SKIPPED_BY = 77


@dataclass(frozen=True)
class Test:
    """One entry of ctest's."""

    name: str
    command: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str], ...]

    @property
    def gtest(self) -> str | None:
        """The name within its program, where it is one of GoogleTest's."""
        for word in self.command[1:]:
            if found := _FILTER.match(word):
                return found.group(1)
        return None


@dataclass
class Reach:
    """What a run of the healthy suite showed: which defects each test reaches, and its time."""

    seconds: dict[Test, float] = field(default_factory=dict)
    mutants: dict[Test, set[int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)  # Without any defect: not asked again.

    def tests_of(self, number: int) -> list[Test]:
        return [test for test, reached in self.mutants.items() if number in reached]


def tests_of(build: Path, leave_out: re.Pattern[str]) -> list[Test]:
    """All of ctest's tests but those whose names match."""
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                            capture_output=True, text=True, check=True).stdout
    found = []
    for entry in json.loads(listed)["tests"]:
        if "command" not in entry or leave_out.search(entry["name"]):
            continue
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        variables = tuple(tuple(text.split("=", 1)) for text in properties.get("ENVIRONMENT", []))
        found.append(Test(entry["name"], tuple(entry["command"]),
                          properties.get("WORKING_DIRECTORY", str(build)), variables))
    return found


def _environment(test: Test, more: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "RC_PARAMS": "seed=1", **dict(test.environment), **more}


def measure(tests: list[Test], jobs: int) -> Reach:
    """Runs every test once, with no defect switched on."""
    reach = Reach()

    def one(test: Test) -> tuple[Test, float, set[int], bool]:
        with tempfile.TemporaryDirectory() as folder:
            map_file = Path(folder, "reached")
            begin = time.monotonic()
            done = subprocess.run(test.command, cwd=test.folder, capture_output=True, check=False,
                                  env=_environment(test, {"LOCKSTEP_MUTANTS_REACHED": str(map_file)}))
            seconds = time.monotonic() - begin
            bytes_ = map_file.read_bytes() if map_file.exists() else b""
        reached = {number for number, byte in enumerate(bytes_) if byte}
        return test, seconds, reached, done.returncode in (0, SKIPPED_BY)

    with ThreadPoolExecutor(jobs) as pool:
        for test, seconds, reached, ok in pool.map(one, tests):
            if not ok:
                reach.failed.append(test.name)
            elif reached:
                reach.seconds[test] = seconds
                reach.mutants[test] = reached
    return reach


def calls_of(tests: list[Test], seconds: dict[Test, float]) -> list[tuple[Test, tuple[str, ...], float]]:
    """Few processes for many tests, the quickest first: a test of each, its command, its time.

    Tests of one program run in one process, which ends at the first that fails.
    """
    together: dict[tuple[object, ...], list[Test]] = defaultdict(list)
    calls = []
    for test in tests:
        if test.gtest is None:
            calls.append((test, test.command, seconds[test]))
        else:
            together[(test.command[0], test.folder, test.environment)].append(test)
    for same in together.values():
        same.sort(key=lambda test: seconds[test])
        for at in range(0, len(same), MOST_TESTS_A_CALL):
            part = same[at:at + MOST_TESTS_A_CALL]
            names = ":".join(str(test.gtest) for test in part)
            command = (part[0].command[0], f"--gtest_filter={names}", "--gtest_fail_fast",
                       "--gtest_brief=1", "--gtest_also_run_disabled_tests")
            calls.append((part[0], command, sum(seconds[test] for test in part)))
    return sorted(calls, key=lambda call: call[2])


def noticed_by(number: int, reach: Reach) -> str | None:
    """The test that fails with this defect switched on; None: it survives."""
    for test, command, seconds in calls_of(reach.tests_of(number), reach.seconds):
        limit = LEAST_TIMEOUT_S + PATIENCE * seconds
        with subprocess.Popen(command, cwd=test.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=_environment(test, {"LOCKSTEP_MUTANT": str(number)}),
                              start_new_session=True) as process:
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                return f"{test.name} or another of its program (does not end)"
        if process.returncode not in (0, SKIPPED_BY):
            failed = _FAILED.search(output)
            return failed.group(1) if failed else f"{test.name} (exit {process.returncode})"
    return None
