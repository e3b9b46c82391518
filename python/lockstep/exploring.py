"""Searches of a scenario, as objects, and spread over whatever runs functions elsewhere."""
from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lockstep.native import command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

FOUND = 1  # The exit code of a search that found something.
BAD_INPUT = 2


class Submits(Protocol):
    """What runs functions elsewhere: concurrent.futures.Executor has this, and so have Dask's and mpi4py's."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Returns: a future, whose result() is what `fn` returns."""


@dataclass(frozen=True)
class ExploredFailure:
    """The first run that failed."""

    run: int  # 1 = the first.
    sentence: str
    command: str  # The words of `lockstep run` that make it again.


@dataclass(frozen=True)
class Exploration:
    """What a search came to (docs/explore.md)."""

    scenario: str
    variant: str
    strategy: str
    runs: int  # Up to the failure, it included.
    ends: int  # Distinct end states.
    seeds: int
    changes: int
    proof: bool  # All schedules there are have run.
    diverging: bool  # Two runs of the same inputs ended differently.
    failure: ExploredFailure | None
    unreached: tuple[str, ...]  # Marks that no run has reached.
    out: Path  # Where repro.toml and repro_test.cc lie, if something failed.
    notes: tuple[str, ...]  # What else was found: failures of other shards, with the files that keep them.

    @property
    def ok(self) -> bool:
        """Nothing failed, and every mark was reached."""
        return self.failure is None and not self.diverging and not self.unreached

    def raise_for_failure(self) -> None:
        """Raises SearchFailed unless `ok`."""
        if not self.ok:
            raise SearchFailed(self)

    def __str__(self) -> str:
        lines = [f"{self.runs} runs ({self.strategy}), {self.ends} end states"]
        if self.failure is not None:
            lines += [f"run {self.failure.run}: {self.failure.sentence}", f"  {self.failure.command}"]
        if self.diverging:
            lines.append("the result depends on the schedule")
        lines += [f"never reached: {mark}" for mark in self.unreached]
        return "\n".join([*lines, *self.notes])


class SearchFailed(AssertionError):
    """A search found something; `exploration` says what."""

    def __init__(self, exploration: Exploration) -> None:
        super().__init__(str(exploration))
        self.exploration = exploration


def explore(scenario: str | PathLike[str], *, executor: Submits | None = None, shards: int = 16, runs: int = 1000,
            strategy: str = "random", seeds: int = 1, vary: bool = False, variant: str = "",
            settings: Sequence[str] = (), threads: int = 1, out: str | PathLike[str] = "lockstep-out",
            regressions: str | PathLike[str] | None = None) -> Exploration:
    """Searches for a schedule, a seed or a small change that breaks the scenario, as `lockstep explore` does.

    With an executor, the runs are split into `shards`, which it may run anywhere: in processes
    (concurrent.futures.ProcessPoolExecutor), on a Dask cluster (client.get_executor()), under MPI
    (mpi4py.futures.MPIPoolExecutor), or on anything else with a `submit`. What is found does not depend on the executor,
    its size or the number of shards.

    Requires: where functions run, `lockstep` can be imported in the same version, and the current folder and the scenario
    have the same paths and contents.

    Args:
        scenario: the file.
        executor: None: this machine makes all runs.
        shards: shares of the work, a few for each worker. Without an executor, one.
        runs: the largest number of runs.
        strategy: "random", "uniform", "pct:depth=3" or "exhaustive". With an executor not "exhaustive", and "pct" with a
            number of steps: "pct:depth=3,steps=400".
        seeds: job seeds to cycle through.
        vary: also make small changes: ranks, rows, steps, buckets, summation orders.
        variant: of the file; "" = its base.
        settings: "key=value", as after `--set`.
        threads: of each shard.
        out: the folder for what fails; nothing is written if nothing does.
        regressions: the folder of kept failures, which are tried first; None: `regressions` in `out`.

    Raises:
        ValueError: a file, a value or a combination that makes no sense; the message is that of the command.
        RuntimeError: a run could not be made.

    Example:
        with ProcessPoolExecutor() as pool:
            lockstep.explore("job.toml", runs=10_000, executor=pool).raise_for_failure()
    """
    if shards < 1:
        raise ValueError(f"shards={shards}: must be 1 or more")
    where = ["--out", str(out)] + ([] if regressions is None else ["--regressions", str(regressions)])
    words = [str(scenario), "--runs", str(runs), "--strategy", strategy, "--seeds", str(seeds), "--threads", str(threads),
             *where]
    words += ["--vary"] * vary + (["--variant", variant] if variant else [])
    for setting in settings:
        words += ["--set", setting]
    if executor is None:
        return _exploration(_run(["explore", *words, "--json"]), Path(out))
    with tempfile.TemporaryDirectory(prefix="lockstep-parts-") as scratch:
        files = []
        for number, part in enumerate(_parts(executor, words, shards), 1):
            files.append(str(Path(scratch, f"part-{number}.jsonl")))
            Path(files[-1]).write_text(part, encoding="utf-8")
        return _exploration(_run(["merge", *files, *where, "--json"]), Path(out))


def run_shard(words: Sequence[str], folder: str, shard: str) -> str:
    """One share of a search, wherever this is called. Returns: its part (docs/explore.md)."""
    with tempfile.TemporaryDirectory(prefix="lockstep-shard-") as scratch:
        part = Path(scratch, "part.jsonl")
        _run(["explore", *words, "--shard", shard, "--part", str(part)], folder)
        return part.read_text(encoding="utf-8")


def _parts(executor: Submits, words: list[str], shards: int) -> list[str]:
    """In the order of the shards. What has not begun is not begun once one of them fails."""
    futures = [executor.submit(run_shard, words, os.getcwd(), f"{number}/{shards}") for number in range(1, shards + 1)]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _run(words: list[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([command(), *words], cwd=folder, capture_output=True, text=True)
    if done.returncode in (0, FOUND):
        return done
    text = done.stderr.strip() or f"lockstep {words[0]}: exit code {done.returncode}"
    raise ValueError(text) if done.returncode == BAD_INPUT else RuntimeError(text)


def _exploration(done: subprocess.CompletedProcess[str], out: Path) -> Exploration:
    found = json.loads(done.stdout)
    failure = found["failure"]
    return Exploration(
        scenario=found["scenario"], variant=found["variant"], strategy=found["strategy"], runs=found["runs"],
        ends=found["ends"], seeds=found["seeds"], changes=found["changes"], proof=found["proof"],
        diverging=found["diverging"],
        failure=failure and ExploredFailure(failure["run"], failure["text"], failure["command"]),
        unreached=tuple(mark["name"] for mark in found["coverage"]["marks"] if not mark["runs"]), out=out,
        notes=tuple(line.rstrip() for line in done.stderr.splitlines()))
