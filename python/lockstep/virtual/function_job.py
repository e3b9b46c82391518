"""A function as what every rank does: how the tests of pytest-lockstep run, and what is said of those that fail."""
from __future__ import annotations

import dataclasses
import functools
import math
import os
import pickle
import shutil
import sys
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep import _core
from lockstep.command_line import MOST_SECONDS
from lockstep.virtual import known_words, launch, options, zygote
from lockstep.virtual.clock import ClockMode
from lockstep.virtual.connection import Stopped
from lockstep.virtual.device import Device, UnknownDevice
from lockstep.virtual.rank import Failed, current
from lockstep.virtual.shrinking import shrink
from lockstep.virtual.works import CallFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.virtual.launch import Outcome
    from lockstep.virtual.options import Options


_BOUNDS = (("ranks", 1, options.MOST_RANKS), ("schedules", 1, options.MOST_TIMES),
           ("seed", 0, options.MOST_SEED - options.MOST_TIMES), ("arena_mb", 1, options.MOST_ARENA_MB),
           ("wall_limit", 0, MOST_SECONDS))


@dataclass(frozen=True)
class Settings:
    """How a function is run. The fields are the arguments of the marker and of the fixture."""

    ranks: int = 2
    schedules: int = 1  # The first in parallel, the others serial with the seeds that follow.
    seed: int = 0
    schedule: str = ""  # A token: this schedule alone.
    backend: str = ""  # Ranks join a group of it before the function and leave it afterwards; "": they do it themselves.
    laws: bool = True  # What ranks do is recorded and judged.
    allow: tuple[str, ...] = ()
    buffers: str = ""
    order: str = "gloo-ring"
    pairing: str = "strict"
    faults: tuple[str, ...] = ()
    expire: bool = False
    clock: str = "real"
    device: str = "cpu"
    wall_limit: float = 0.0  # Seconds.
    arena_mb: int = 1024

    def __post_init__(self) -> None:
        """Raises ValueError, which names the argument."""
        for name, least, most in _BOUNDS:
            value = getattr(self, name)
            kinds = (int, float) if name == "wall_limit" else (int,)
            if type(value) not in kinds or not least <= value <= most:
                raise self._wrong(name, f"must be {'a whole number' if kinds == (int,) else 'a number of seconds'} from {least} to {most}")
        for name in ("laws", "expire"):
            if type(getattr(self, name)) is not bool:
                raise self._wrong(name, "must be True or False")
        for name in ("schedule", "backend", "buffers", "order", "pairing", "device"):
            if not isinstance(getattr(self, name), str):
                raise self._wrong(name, "must be a text")
        for name in ("allow", "faults"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
                raise self._wrong(name, "must be a list of texts")
        if self.clock not in (modes := [mode.value for mode in ClockMode]):
            raise self._wrong("clock", f"there are {', '.join(modes)}")
        try:
            Device.parse(self.device)
        except UnknownDevice as error:
            raise self._wrong("device", str(error)) from None
        self._require_known_words()

    def _require_known_words(self) -> None:
        try:
            known_words.require(order=self.order, strategy=self.schedule, pairing=self.pairing, allow=self.allow,
                                buffers=self.buffers)
        except known_words.Unknown as error:
            raise self._wrong("schedule" if error.option == "strategy" else error.option, str(error)) from None
        for fault in self.faults:
            try:
                _core.torn_saves([fault], self.ranks)
            except ValueError as error:
                raise self._wrong("faults", str(error)) from None

    def _wrong(self, name: str, why: str) -> ValueError:
        return ValueError(f"{name}={getattr(self, name)!r}: {why}")

    def as_options(self) -> Options:
        """The same on the command line."""
        given = options.parse(["--nproc-per-node", str(self.ranks), "-m", "function"])
        return dataclasses.replace(
            given, program=sys.argv[0], arguments=tuple(sys.argv[1:]), record=self.laws, allow=self.allow,
            buffers=self.buffers, order=self.order, pairing=self.pairing, faults=self.faults, expire=self.expire,
            clock=ClockMode(self.clock), device=Device.parse(self.device), arena_mb=self.arena_mb, wall_limit_ms=math.ceil(self.wall_limit * 1000))


class Ending(Enum):
    """How a function ended in one rank."""

    RETURNED = "returned"
    RAISED = "raised"
    FOLLOWED = "followed"  # A call of its failed because another rank had.
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    UNKNOWN = "unknown"  # The rank was stopped, or its process ended.


_FAILURES = (Ending.RAISED, Ending.FOLLOWED)


@dataclass(frozen=True)
class RankResult:
    """What a rank leaves for the process that started it."""

    ending: Ending = Ending.UNKNOWN
    message: str = ""  # One line.
    text: str = ""  # With the traceback.
    file: str = ""
    line: int = 0
    value: bytes = b""  # What the function returned, pickled.


class RanksFailed(AssertionError):
    """Ranks did not all end well, or broke a law. The message is meant for people."""

    def __init__(self, headline: str, text: str, outcome: Outcome, place: tuple[str, int] = ("", 0)) -> None:
        super().__init__(f"{headline}\n{text}" if text else headline)
        self.headline = headline
        self.text = text
        self.outcome = outcome
        self.place = place  # File and line.
        self.again = ""  # The token of a schedule that fails the same way.


class AllSkipped(Exception):
    """Every rank skipped the test, or called it an expected failure."""

    def __init__(self, ending: Ending, reason: str) -> None:
        super().__init__(reason)
        self.ending = ending


@dataclass(frozen=True)
class Job:
    """One run of the function by all ranks."""

    outcome: Outcome
    results: tuple[RankResult, ...]

    @property
    def ok(self) -> bool:
        return self.outcome.ok

    @property
    def kind(self) -> tuple[Any, ...]:
        """What a smaller schedule must fail with, too."""
        report = self.outcome.report
        laws = sorted({finding.law for finding in report.findings}) if report is not None else []
        raised = sorted({(each.file, each.line) for each in self.results if each.ending in _FAILURES})
        return self.outcome.found["outcome"], *laws, *raised


class _Program:
    """What each rank does."""

    def __init__(self, folder: str, function: Callable[[], Any], backend: str,
                 describe: Callable[[BaseException], RankResult]) -> None:
        self._folder = folder
        self._function = function
        self._backend = backend
        self._describe = describe

    def __call__(self) -> None:
        try:
            self._leave(RankResult(Ending.RETURNED, value=_pickled(self._call())))
        except Stopped:
            raise
        except BaseException as error:
            if current() is None:
                raise
            result = self._describe(error)
            if isinstance(error, CallFailed) and result.ending is Ending.RAISED:
                result = dataclasses.replace(result, ending=Ending.FOLLOWED)
            self._leave(result)
            if result.ending in _FAILURES:
                raise Failed(result.message) from None

    def _call(self) -> Any:
        if not self._backend:
            return self._function()
        import torch.distributed as dist

        dist.init_process_group(self._backend)
        value = self._function()
        if dist.is_initialized():
            dist.destroy_process_group()
        return value

    def _leave(self, result: RankResult) -> None:
        if current() is None:
            return  # A process that the function has forked: the result is the rank's.
        path = Path(self._folder) / os.environ["RANK"]
        path.write_bytes(pickle.dumps(result))


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise TypeError(f"what the function returns cannot be handed back: {error}") from None


def _result(folder: Path, rank: int) -> RankResult:
    try:
        result = pickle.loads((folder / str(rank)).read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        return RankResult()
    assert isinstance(result, RankResult)
    return result


@functools.cache
def prepare() -> None:
    """Imports PyTorch and warms it up, once. The number of its threads stays as it was."""
    import torch

    before = torch.get_num_threads()
    variable = os.environ.get("OMP_NUM_THREADS")
    zygote.prepare()
    torch.set_num_threads(before)
    if variable is None:
        del os.environ["OMP_NUM_THREADS"]


def run_function(function: Callable[[], Any], settings: Settings, describe: Callable[[BaseException], RankResult],
                 folder: Path | None = None) -> list[Any]:
    """Calls the function in every rank, under every schedule that is asked for.

    Args:
        describe: called in a rank for what the function raised.
        folder: every schedule finds it as the first one did.
    Returns: by rank, what it returned under the first schedule.
    Raises:
        RanksFailed: under some schedule a rank failed, none could go on, or a law was broken.
        AllSkipped: every rank skipped.
    """
    prepare()
    with _Kept(folder if settings.schedules > 1 else None) as kept:
        runner = _Runner(function, settings, describe, kept)
        first = runner.run(settings.seed, settings.schedule, serial=bool(settings.schedule))
        runner.require_ok(first)
        for number in range(1, 1 if settings.schedule else settings.schedules):
            job = runner.run(settings.seed + number, "random", quiet=True)
            if not job.ok:
                runner.report_smallest(job, number)
            runner.require_ok(job)
    return [pickle.loads(each.value) for each in first.results]


class _Kept:
    """A folder whose contents can be put back."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._copy = ""
        self._n_uses = 0

    def __enter__(self) -> _Kept:
        if self._folder is not None:
            self._copy = tempfile.mkdtemp(prefix="lockstep-")
            shutil.copytree(self._folder, self._copy, symlinks=True, dirs_exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._copy:
            shutil.rmtree(self._copy, ignore_errors=True)

    def put_back(self) -> None:
        """From the second time on."""
        self._n_uses += 1
        if self._folder is None or self._n_uses == 1:
            return
        for entry in self._folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        shutil.copytree(self._copy, self._folder, symlinks=True, dirs_exist_ok=True)


class _Runner:
    def __init__(self, function: Callable[[], Any], settings: Settings,
                 describe: Callable[[BaseException], RankResult], kept: _Kept) -> None:
        self._function = function
        self._settings = settings
        self._describe = describe
        self._kept = kept
        self._options = settings.as_options()

    def run(self, seed: int, strategy: str, *, serial: bool = True, quiet: bool = False) -> Job:
        """Raises ValueError for a schedule that does not fit."""
        import torch

        given = dataclasses.replace(self._options, serial=serial, seed=seed, strategy=strategy)
        threads = torch.get_num_threads()
        self._kept.put_back()
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            program = _Program(folder, self._function, self._settings.backend, self._describe)
            torch.set_num_threads(1)  # As torchrun has it. Threads would not survive a fork.
            try:
                outcome = launch.run_ranks(given, seed, "", quiet, program)
            finally:
                torch.set_num_threads(threads)
            result = tuple(_result(Path(folder), rank) for rank in range(given.ranks))
        if outcome.found["outcome"] == "interrupted":
            raise KeyboardInterrupt
        return Job(outcome, result)

    def require_ok(self, job: Job, note: str = "", again: str = "") -> None:
        endings = {each.ending for each in job.results}
        skipped = endings & {Ending.SKIPPED, Ending.XFAILED}
        if skipped and len(endings) == 1:
            raise AllSkipped(skipped.pop(), job.results[0].message)
        if job.ok and not skipped:
            return
        headline, place = _headline(job)
        failed = RanksFailed(headline, "\n".join(_lines(job, note)), job.outcome, place)
        failed.again = again
        raise failed

    def report_smallest(self, job: Job, n_passed: int) -> None:
        """Raises RanksFailed for the smallest schedule that was found to fail as this one does."""
        kind = job.kind
        small = shrink(job.outcome.found["token"], lambda token: self._fails_as(kind, token))
        again = self.run(self._settings.seed, small.schedule, quiet=True)
        if again.kind != kind:  # Something that no schedule decides: what was seen first is what counts.
            again = job
        for rank, line in again.outcome.lines:
            print(f"[rank {rank}] {line}")
        passed = f"{n_passed} schedule{'s' * (n_passed > 1)} before it passed"
        note = (f"under the schedule {small.schedule}; {passed}; made smaller from {small.n_before} deviations to "
                f"{small.n_after} in {small.tries} tries")
        self.require_ok(again, note, small.schedule)

    def _fails_as(self, kind: tuple[Any, ...], token: str) -> bool:
        try:
            return self.run(self._settings.seed, token, quiet=True).kind == kind
        except ValueError:
            return False  # A deviation whose place never comes.


# -- what is said
def _headline(job: Job) -> tuple[str, tuple[str, int]]:
    found, n = job.outcome.found, len(job.results)
    failed = [rank for kind in _FAILURES for rank in _ranks_of(job, kind)]
    if failed:
        first = found["first_failure"] if found["first_failure"] in _ranks_of(job, Ending.RAISED) else failed[0]
        result = job.results[first]
        return f"rank {first} of {n}: {result.message}", (result.file, result.line)
    skipped = [*_ranks_of(job, Ending.SKIPPED), *_ranks_of(job, Ending.XFAILED)]
    if skipped:
        return f"rank {skipped[0]} of {n} left the test ({job.results[skipped[0]].message}), others did not", ("", 0)
    if found["outcome"] != "ok":
        detail = found["error"] or found["wait_for"].partition("\n")[0]
        return f"{launch.FIRST_WORDS[found['outcome']]}: {detail}", ("", 0)
    report = job.outcome.report
    assert report is not None
    return str(report.findings[0]) if report.findings else report.error, ("", 0)


def _ranks_of(job: Job, ending: Ending) -> list[int]:
    return [rank for rank, each in enumerate(job.results) if each.ending is ending]


def _lines(job: Job, note: str) -> list[str]:
    lines = [note] if note else []
    raised = _ranks_of(job, Ending.RAISED) or _ranks_of(job, Ending.FOLLOWED)
    alike: dict[tuple[str, int], list[int]] = {}
    for rank in raised:
        alike.setdefault((job.results[rank].file, job.results[rank].line), []).append(rank)
    for ranks in alike.values():
        lines += [f"{f' {_named(ranks)} ':-^80}", job.results[ranks[0]].text]
        lines += [f"rank {rank}: {job.results[rank].message}" for rank in ranks[1:]]
    lines += [line for line in launch.verdict_lines(job.outcome.found, again=False)
              if not any(line.startswith(f"  rank {rank}: ") for rank in raised)]
    report = job.outcome.report
    if report is not None:
        lines += [f"law: {finding}" for finding in report.findings if not (raised and finding.law == "progress")]
    return lines


def _named(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
