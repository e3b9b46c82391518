"""Runs PyTorch's own tests of torch.distributed, unedited, and writes how each of them ended.

  pytorch_suite.py gloo|virtual RANKS RESULT.json [TEST...]

The tests are DistributedTest._DistTestBase as PyTorch's wheel has it: on real Gloo processes, or on
virtual ranks. Both fork the ranks of a test from this process, which imports PyTorch once.

PyTorch's two lists of backends whose calls the profiler knows are emptied for both: events named
"gloo:all_reduce" that are asynchronous can only be made in C++. What tests assert besides stands.
"""
from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

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


def test_class(virtual: bool) -> type[unittest.TestCase]:
    """The tests, with the one thing that PyTorch leaves to who runs them: how ranks are started."""
    import importlib

    for name in LAZY:
        importlib.import_module(name)
    import torch.testing._internal.distributed.distributed_test as tests
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    tests.PROFILING_SUPPORTED_BACKENDS.clear()
    tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()

    class OnGloo(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            import torch.multiprocessing

            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    class OnVirtualRanks(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self.job = Job(int(self.world_size))
            self._start_processes(self.job.process)
            self.job.close()

        def tearDown(self) -> None:
            super().tearDown()
            for process in self.processes:
                process.join()
            self.job.reap()

    return OnVirtualRanks if virtual else OnGloo


class Job:
    """The world of one test: a process that coordinates, and ranks that PyTorch's harness starts."""

    def __init__(self, ranks: int) -> None:
        from lockstep.virtual import zygote

        self.ranks = ranks
        self.world = zygote.World(ranks, 1 << 30)
        how = zygote.Coordinated(expire=True)
        self.coordinator = os.fork()
        if self.coordinator == 0:
            code = 1
            try:
                found = self.world.coordinate([0] * ranks, how)
                code = 0 if found["outcome"] != "livelock" else 1
            finally:
                os._exit(code)

    def process(self, target: Callable[..., None], name: str, args: tuple[Any, ...],
                kwargs: dict[str, Any]) -> Any:
        import torch.multiprocessing

        def enter() -> None:
            from lockstep.virtual import rank

            place = rank.Place(rank=args[0], world=self.ranks, local_rank=args[0], local_world=self.ranks,
                               node=0, nodes=1, attempt=0, environment={})
            end, memory = self.world.take(args[0])
            rank.become(place, end, memory, rank.Settings())
            target(*args, **kwargs)

        return torch.multiprocessing.get_context("fork").Process(target=enter, name=name)

    def close(self) -> None:
        for pair in self.world.pairs:
            for end in pair:
                end.close()

    def reap(self) -> None:
        os.waitpid(self.coordinator, 0)


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


def main(backend: str, ranks: int, result_file: str, chosen: list[str]) -> int:
    set_environment(ranks)
    tests = test_class(backend == "virtual")
    loader = unittest.TestLoader()
    names = chosen or loader.getTestCaseNames(tests)
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=2)  # type: ignore[arg-type]
    result = runner.run(unittest.TestSuite(map(tests, names)))
    assert isinstance(result, Result)
    Path(result_file).write_text(json.dumps(result.ends, indent=1))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("gloo", "virtual"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
