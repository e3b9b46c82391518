#!/usr/bin/env python3
"""Runs the tests of the package: run.py BUILD core|torch|virtual|types|wheel|soak [PYTEST ARGUMENT...]

`torch`, `virtual` and `soak` (minutes) need the environment that python/tools/torch_environment.py makes (`./dev test` calls it); `wheel` needs
what builds wheels. Where that is missing it says why and exits with 77, which ctest counts as skipped.

What tests and the programs that they run leave among temporary files is removed at the end. What Lockstep leaves there
fails the suite.

A test of `torch` or `virtual` that fails is run once more, by itself: PyTorch on Gloo aborts some of its ranks as they end
(docs/pytorch.md), and deadlines of jobs pass on a machine that stands still. It is named, with what it said the first time;
what fails twice has failed.
"""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
SKIPPED = 77
TORCH = "torch-2.15.0"
AGAIN = ("torch", "virtual")  # Suites whose tests start ranks of PyTorch.
FAILED = 1  # Of pytest: tests ran, and some failed.
SUITES = ("core", "torch", "virtual", "types", "wheel", "soak")


def skip(reason: str) -> int:
    print(f"NOT RUN: {reason}", file=sys.stderr)
    return SKIPPED


def torch_python(build: Path) -> Path | str:
    """The interpreter that has PyTorch, or why there is none."""
    python = build / TORCH / "bin" / "python"
    if (build / TORCH / "ready.txt").exists():
        return python
    why = build / TORCH / "why-not.txt"
    reason = why.read_text().strip() if why.exists() else "./dev test makes it"
    return f"{build / TORCH} with a current PyTorch is missing: {reason}"


def left_in(scratch: Path) -> list[str]:
    """What Lockstep left. A keeper removes the folders of a killed process a moment after its end."""
    for _ in range(100):
        left = sorted(str(path) for path in scratch.glob("lockstep*"))
        if not left:
            return []
        time.sleep(0.1)
    return left


def again(words: list[str], environment: dict[str, str]) -> int:
    """Runs what failed once more. Returns pytest's exit code of that."""
    print("\nFAILED, and run once more by themselves:", flush=True)
    code = subprocess.run([*words, "--last-failed", "--last-failed-no-failures", "none", "-v"], env=environment).returncode
    print("all of them passed the second time" if code == 0 else "some failed twice", flush=True)
    return code


def main(build: Path, what: str, arguments: list[str]) -> int:
    environment = dict(os.environ, PYTHONPATH=str(build / "python"), OMP_NUM_THREADS="1",
                       PYTHONDONTWRITEBYTECODE="1", LOCKSTEP_BUILD=str(build))
    interpreter: Path | str = sys.executable
    if what in ("torch", "virtual", "soak"):
        found = torch_python(build)
        if isinstance(found, str):
            return skip(found)
        interpreter = found
    if what == "wheel" and not (build / "wheel-tools" / "bin" / "scikit-build").exists():
        return skip(f"{build / 'wheel-tools'} with scikit-build-core is missing: ./dev test makes it")
    pytest = [str(interpreter), "-m", "pytest", "-q", "-p", "no:faulthandler", "--rootdir", str(HERE)]
    if what not in AGAIN:
        pytest += ["-p", "no:cacheprovider"]
    commands = {
        "core": [*pytest, *(str(HERE / f"{name}_test.py") for name in ("core", "explore", "hostile", "museum", "lasting", "live", "texts"))],
        "torch": [*pytest, str(HERE / "torch_jobs")],
        "virtual": [*pytest, str(HERE / "virtual")],
        "wheel": [*pytest, str(HERE / "wheel")],
        "soak": [*pytest, str(HERE / "soak")],
        "types": [str(interpreter), "-m", "mypy", "--config-file", str(HERE.parent / "pyproject.toml"),
                  "--cache-dir", str(build / "mypy"), "-p", "lockstep"]}
    module = "mypy" if what == "types" else "pytest"
    if subprocess.run([str(interpreter), "-c", f"import {module}"], capture_output=True).returncode:
        return skip(f"{interpreter} has no {module}")
    if what == "types":
        environment["MYPYPATH"] = str(HERE.parent)
    # Short paths: sockets of multiprocessing lie below, and the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as scratch:
        environment["TMPDIR"] = scratch  # PyTorch's launcher, compilers and killed processes leave much.
        if module == "pytest":
            commands[what].append(f"--basetemp={scratch}/t")
        if what in AGAIN:
            commands[what] += ["-o", f"cache_dir={scratch}/cache"]
        words = [*commands[what], *arguments]
        code = subprocess.run(words, env=environment, cwd=HERE.parent if what == "types" else None).returncode
        if code == FAILED and what in AGAIN:
            code = again(words, environment)
        left = left_in(Path(scratch))
    if left:
        print("Lockstep left:", *left, file=sys.stderr)
    return code or bool(left)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in SUITES:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
