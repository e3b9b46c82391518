"""Runs PyTorch's own tests of torch.distributed, unedited, and writes how each of them ended.

  pytorch_suite.py gloo|virtual RANKS RESULT.json [--seed S] [--fault FAULT] [--device D] [TEST...]
  pytorch_suite.py list         writes passes_on_gloo.txt again: what passes on real Gloo, at every size

The tests are DistributedTest._DistTestBase as PyTorch's wheel has it: on real Gloo processes, or on
virtual ranks. Both fork the ranks of a test from this process, which imports PyTorch once. With a seed,
virtual ranks run one at a time, and the schedule of each test is written as well.

PyTorch's two lists of backends whose calls the profiler knows are emptied for both: events named
"gloo:all_reduce" that are asynchronous can only be made in C++. What tests assert besides stands.
"""
from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LIST = Path(__file__).with_name("passes_on_gloo.txt")
SIZES = (3, 4, 8)  # PyTorch skips tests by the size of the world.
LAZY = ("torch._dynamo", "torch._dynamo.utils", "torch.distributed.optim", "torch.multiprocessing")


def set_environment(ranks: int) -> str:
    """PyTorch's tests read it when they are imported."""
    folder = tempfile.mkdtemp(prefix="lockstep-suite-")
    for name in ("barrier", "test_dir", "init_dir"):
        (Path(folder) / name).mkdir()
    os.environ.update(
        BACKEND="gloo", WORLD_SIZE=str(ranks), INIT_METHOD=f"file://{folder}/init_dir/shared_init_file",
        TEMP_DIR=folder, OMP_NUM_THREADS="1", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="60",
        GLOO_SOCKET_IFNAME="lo")
    return folder


def test_class(how: dict[str, Any] | None, device: str = "cpu") -> type[unittest.TestCase]:
    """The tests, with the one thing that PyTorch leaves to who runs them: how ranks are started.

    Args:
        how: for zygote.Coordinated; None: on real Gloo.
    """
    import importlib

    for name in LAZY:
        importlib.import_module(name)
    if device != "cpu":
        from lockstep.virtual import pretended

        pretended.show(int(os.environ["WORLD_SIZE"]))
    import torch.testing._internal.distributed.distributed_test as tests
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    tests.PROFILING_SUPPORTED_BACKENDS.clear()
    tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()
    tests.CUDA_PROFILING_SUPPORTED_BACKENDS.clear()

    class OnGloo(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            import torch.multiprocessing

            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    class OnVirtualRanks(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self.job = Job(int(self.world_size), how or {}, device)
            self._start_processes(self.job.process)
            self.job.close()

        def tearDown(self) -> None:
            super().tearDown()
            for process in self.processes:
                process.join()
            SCHEDULES[self.id().rpartition(".")[2]] = self.job.reap()

    return OnVirtualRanks if how is not None else OnGloo


SCHEDULES: dict[str, str] = {}  # By test.


class Job:
    """The world of one test: a process that coordinates, and ranks that PyTorch's harness starts."""

    def __init__(self, ranks: int, how: dict[str, Any], device: str) -> None:
        from lockstep.virtual import zygote

        self.ranks = ranks
        self.device = device
        self.world = zygote.World(ranks, 1 << 30)
        self.answer, answers = os.pipe()
        self.coordinator = os.fork()
        if self.coordinator == 0:
            try:
                os.close(self.answer)
                found = self.world.coordinate([0] * ranks, zygote.Coordinated(expire=True, **how))
                with os.fdopen(answers, "w") as out:
                    out.write(found["token"])
            finally:
                os._exit(0)
        os.close(answers)

    def process(self, target: Callable[..., None], name: str, args: tuple[Any, ...],
                kwargs: dict[str, Any]) -> Any:
        import torch.multiprocessing

        def enter() -> None:
            from lockstep.virtual import rank
            from lockstep.virtual.device import Device

            place = rank.Place(rank=args[0], world=self.ranks, local_rank=args[0], local_world=self.ranks,
                               node=0, nodes=1, attempt=0, environment={})
            end, memory = self.world.take(args[0])
            rank.become(place, end, memory, rank.Settings(device=Device.parse(self.device)))
            target(*args, **kwargs)

        return torch.multiprocessing.get_context("fork").Process(target=enter, name=name)

    def close(self) -> None:
        for pair in self.world.pairs:
            for end in pair:
                end.close()

    def reap(self) -> str:
        """Returns: the schedule that was."""
        with os.fdopen(self.answer) as answer:
            schedule = answer.read()
        os.waitpid(self.coordinator, 0)
        return schedule


class Result(unittest.TextTestResult):
    """How each test ended, by name: outcome and reason."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ends: dict[str, tuple[str, str, float]] = {}
        self._begin = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        self._begin = time.monotonic()
        super().startTest(test)

    def _note(self, test: unittest.TestCase, outcome: str, reason: str = "") -> None:
        self.ends[test.id().rpartition(".")[2]] = (outcome, reason, time.monotonic() - self._begin)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._note(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._note(test, "failed", str(err[1]))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._note(test, "failed", str(err[1]))


def main(given: argparse.Namespace) -> int:
    set_environment(given.ranks)
    how: dict[str, Any] | None = None
    if given.backend == "virtual":
        how = {"faults": given.fault}
        if given.seed is not None:
            how.update(mode="serial", strategy="random", seed=given.seed)
    tests = test_class(how, given.device)
    if how is not None:
        # As in a process that forks the ranks of many tests: nine times here for each of them.
        from lockstep.virtual import large_pages

        gc.freeze()
        large_pages.join_pages()
    names = given.tests or unittest.TestLoader().getTestCaseNames(tests)
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=2)  # type: ignore[arg-type]
    result = runner.run(unittest.TestSuite(map(tests, names)))
    assert isinstance(result, Result)
    Path(given.result).write_text(json.dumps({"ends": result.ends, "schedules": SCHEDULES}, indent=1))
    return 0


def run(backend: str, ranks: int, *given: str) -> dict[str, Any]:
    """What this program writes, run in a process of its own: "ends" and "schedules", by test."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        done = subprocess.run([sys.executable, __file__, backend, str(ranks), str(result), *given], text=True,
                              capture_output=True, env=dict(os.environ, TMPDIR=folder))
        if not result.exists():
            raise RuntimeError(f"{done.stdout}\n{done.stderr}")
        answer: dict[str, Any] = json.loads(result.read_text())
        return answer


def passed(ends: dict[str, Any]) -> set[str]:
    return {name for name, end in ends.items() if end[0] == "passed"}


def listed() -> tuple[str, dict[int, set[str]]]:
    """The version of PyTorch that passes_on_gloo.txt was made with, and by size of the world what passes."""
    head, *lines = LIST.read_text().splitlines()
    names: dict[int, set[str]] = {size: set() for size in SIZES}
    for line in lines:
        name, *sizes = line.split()
        for size in sizes:
            names[int(size)].add(name)
    return head.split()[2], names


def write_list(found: dict[int, set[str]]) -> None:
    import torch

    lines = [f"# PyTorch {torch.__version__.partition('+')[0]} on real Gloo: tests of DistributedTest._DistTestBase that "
             "pass, and at which sizes of the world. Written by pytorch_suite.py list"]
    for name in sorted(set().union(*found.values())):
        lines.append(" ".join([name, *(str(size) for size in SIZES if name in found[size])]))
    LIST.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=("gloo", "virtual", "list"))
    parser.add_argument("ranks", type=int, nargs="?")
    parser.add_argument("result", nargs="?")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_intermixed_args()
    if arguments.backend == "list":
        write_list({size: passed(run("gloo", size)["ends"]) for size in SIZES})
    else:
        sys.exit(main(arguments))
