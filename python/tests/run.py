#!/usr/bin/env python3
"""Runs the tests of the package: run.py BUILD core|torch|virtual|types|wheel|soak [PYTEST ARGUMENT...]

`torch`, `virtual` and `soak` (minutes) need the environment that python/tools/torch_environment.py makes (`./dev test` calls it); `wheel` needs
what builds wheels. Where that is missing it says why and exits with 77, which ctest counts as skipped.

What tests and the programs that they run leave among temporary files is removed at the end. What Lockstep leaves there
fails the suite. So does a process that is left where all tests passed at once; each is named, and killed.

A test of `torch` or `virtual` that fails is run once more, by itself: PyTorch on Gloo aborts some of its ranks as they end
(docs/pytorch.md), and deadlines of jobs pass on a machine that stands still. It is named, with what it said the first time;
what fails twice has failed.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import signal
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
PATIENCE_S = 15.0  # A loader's workers look every 5 s whether their rank is still there.
PR_SET_CHILD_SUBREAPER = 36
CORE = ("core", "commands", "explore", "hostile", "museum", "lasting", "live", "texts", "suite")
SHORTENED = ("torch_jobs/caught_test.py", "torch_jobs/left_out_test.py", "virtual/reported_test.py", "virtual/laws_test.py",
             "virtual/equal_to_gloo_test.py")  # In a soak as a whole: soaking.py.
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


def adopt_orphans() -> None:
    """What loses its parent becomes a child of this process, which would not see it otherwise."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(words: list[str], environment: dict[str, str]) -> int:
    """Returns the exit code. Waits for adopted processes, too: tests ask whether a process is gone."""
    process = subprocess.Popen(words, env=environment)
    while True:
        ended, status = os.wait()
        if ended == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode


def children() -> dict[int, str]:
    """Those of this process that run: what each is, and in which call of the kernel it waits."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (path / "stat").read_text().rpartition(")")
            state, parent = rest.split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(path.name)] = f"{name.partition('(')[2]}, {words[:200]}, waits in {(path / 'wchan').read_text()}"
    return found


def processes_left() -> list[str]:
    """What still runs after a while, named and killed. A reader of this one's output would wait for them."""
    end = time.monotonic() + PATIENCE_S
    while (left := children()) and time.monotonic() < end:
        time.sleep(0.1)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return [f"process {process}: {what}" for process, what in left.items()]


def again(words: list[str], environment: dict[str, str]) -> int:
    """Runs what failed once more. Returns pytest's exit code of that."""
    print("\nFAILED, and run once more by themselves:", flush=True)
    code = run([*words, "--last-failed", "--last-failed-no-failures", "none", "-v"], environment)
    print("all of them passed the second time" if code == 0 else "some failed twice", flush=True)
    return code


def command_of(what: str, interpreter: Path | str, build: Path) -> list[str]:
    if what == "types":
        return [str(interpreter), "-m", "mypy", "--config-file", str(HERE.parent / "pyproject.toml"),
                "--cache-dir", str(build / "mypy"), "-p", "lockstep"]
    pytest = [str(interpreter), "-m", "pytest", "-q", "-p", "no:faulthandler", "--rootdir", str(HERE)]
    if what == "core":
        return [*pytest, "-p", "no:cacheprovider", *(str(HERE / f"{name}_test.py") for name in CORE)]
    if what in AGAIN:  # Of "torch" the folder has another name: it would hide PyTorch.
        return [*pytest, str(HERE / ("torch_jobs" if what == "torch" else what))]
    also = SHORTENED if what == "soak" else ()
    return [*pytest, "-p", "no:cacheprovider", str(HERE / what), *(str(HERE / name) for name in also)]


def tested(words: list[str], environment: dict[str, str], repeats: bool) -> int:
    """Runs pytest among temporary files of its own. Returns the suite's exit code. `repeats`: what fails is run once more."""
    # Short paths: sockets of multiprocessing lie below, and the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as scratch:
        environment = environment | {"TMPDIR": scratch}  # PyTorch's launcher, compilers and killed processes leave much.
        words = [*words, f"--basetemp={scratch}/t"]
        if repeats:
            words += ["-o", f"cache_dir={scratch}/cache"]
        code = run(words, environment)
        running = processes_left()
        is_clean = code == 0
        if code == FAILED and repeats:
            code = again(words, environment)
            running += processes_left()
        left = left_in(Path(scratch))
    if left:
        print("Lockstep left:", *left, file=sys.stderr)
    if running:
        print("left running:", *running, sep="\n  ", file=sys.stderr)
    return code or bool(left) or (is_clean and bool(running))


def main(build: Path, what: str, arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background job ignores it, and tests interrupt programs.
    environment = dict(os.environ, PYTHONPATH=str(build / "python"), OMP_NUM_THREADS="1",
                       PYTHONDONTWRITEBYTECODE="1", LOCKSTEP_BUILD=str(build))
    if what == "soak":
        environment["LOCKSTEP_SOAK"] = "1"
    interpreter: Path | str = sys.executable
    if what in ("torch", "virtual", "soak"):
        found = torch_python(build)
        if isinstance(found, str):
            return skip(found)
        interpreter = found
    if what == "wheel" and not (build / "wheel-tools" / "bin" / "scikit-build").exists():
        return skip(f"{build / 'wheel-tools'} with scikit-build-core is missing: ./dev test makes it")
    module = "mypy" if what == "types" else "pytest"
    if subprocess.run([str(interpreter), "-c", f"import {module}"], capture_output=True).returncode:
        return skip(f"{interpreter} has no {module}")
    words = [*command_of(what, interpreter, build), *arguments]
    if what == "types":
        return subprocess.run(words, env=environment | {"MYPYPATH": str(HERE.parent)}, cwd=HERE.parent).returncode
    adopt_orphans()
    return tested(words, environment, repeats=what in AGAIN)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in SUITES:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
