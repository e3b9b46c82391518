"""What earlier runs found out, so that one that was cut off goes on where it stopped."""
from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from trials import Ended, Reach, Test, measured

_SAVED_EVERY = 200  # Tests.


class Verdicts:
    """Who noticed which defect, and when which survived, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        kept = json.loads(path.read_text()) if path.exists() else {}
        self._by: dict[str, str] = kept.get("noticed", {})
        self._survived: dict[str, float] = kept.get("survived", {})

    def of(self, defect: str) -> str | None:
        return self._by.get(defect)

    def survived(self, defect: str) -> float:
        """When no test noticed it, as seconds since the epoch; 0: never."""
        return self._survived.get(defect, 0.0)

    def add(self, defect: str, noticed_by: str | None, when: float) -> None:
        """`when`: before the first test was asked."""
        with self._lock:
            if noticed_by is None:
                self._survived[defect] = when
            else:
                self._by[defect] = noticed_by
            _write(self._path, {"noticed": self._by, "survived": self._survived})


class Measurements:
    """What each test reaches, kept in a file as long as what it runs is what it was."""

    def __init__(self, path: Path, build: Path, draw: str) -> None:
        """`draw`: what the numbers of defects mean; of another draw nothing is kept."""
        self._path = path
        # What scripts run is not known: perhaps the command, or the module of the Python package.
        self._scripts = [*build.glob("bin/lockstep"), *sorted((build / "python").rglob("*.so"))]
        self._draw = draw
        kept = json.loads(path.read_text()) if path.exists() else {}
        self._rows: dict[str, tuple[str, float, list[int], float]] = {}
        if kept.get("draw") == draw:
            self._rows = {name: (stamp, seconds, mutants, when)
                          for name, (stamp, seconds, mutants, when) in kept["tests"].items()}

    def of(self, test: Test) -> tuple[float, set[int], float] | None:
        """Its seconds, what it reaches and when it was measured; None: not known, or it failed."""
        stamp, seconds, mutants, when = self._rows.get(test.name, ("", 0.0, [], 0.0))
        return (seconds, set(mutants), when) if stamp == self._stamp(test) else None

    def add(self, test: Test, seconds: float, mutants: set[int], when: float) -> None:
        self._rows[test.name] = (self._stamp(test), seconds, sorted(mutants), when)

    def save(self) -> None:
        _write(self._path, {"draw": self._draw, "tests": self._rows})

    def _stamp(self, test: Test) -> str:
        files = [Path(word) for word in test.command if word.startswith("/") and Path(word).is_file()]
        if test.gtest is None:
            files += self._scripts
        return " ".join((*test.command, *(str(file.stat().st_mtime_ns) for file in files)))


def _write(path: Path, content: object) -> None:
    """Whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content))
    new.replace(path)


def measure(tests: list[Test], jobs: int, kept: Measurements | None = None) -> Reach:
    """Runs every test once, with no defect switched on; those that fail a second time, alone."""
    reach = Reach()

    def add(test: Test, how: Ended, reached: set[int]) -> bool:
        if how.is_ok:
            reach.add(test, how.seconds, reached, time.time())
            if kept is not None and how.status == 0:  # What was skipped may not be the next time.
                kept.add(test, how.seconds, reached, time.time())
        return how.is_ok

    unknown = []
    for test in tests:
        if known := kept.of(test) if kept is not None else None:
            reach.add(test, *known)
        else:
            unknown.append(test)
    again = []
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(measured, test): test for test in unknown}
        for n, future in enumerate(as_completed(futures), 1):
            if not add(futures[future], *future.result()):
                again.append(futures[future])
            if kept is not None and (n % _SAVED_EVERY == 0 or n == len(unknown)):
                kept.save()
                print(f"{n} of {len(unknown)} tests measured", flush=True)
    reach.failed = [test.name for test in again if not add(test, *measured(test))]
    if kept is not None:
        kept.save()
    return reach
