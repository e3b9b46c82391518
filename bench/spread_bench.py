#!/usr/bin/env python3
"""What a second core and a second Dask worker do for a search: spread_bench.py [--runs 8000] [--rounds 5]

The same search of one scenario on one core and on two, by threads (`-j 2`), by shards in processes of their own, and on Dask
clusters of one worker and of two. Each way has the machine to itself, and has started before its time counts. Of each way the
least time counts; ways alternate, so that what else the machine does falls on all of them. The result is the same object every
time, which is checked. Run it through `./dev bench spread`.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import distributed
import lockstep
from lockstep.native import command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Way = Callable[[], object]  # Makes the search, and returns what it found.

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "healthy" / "any_schedule.toml"
SHARDS = 8
# A way, the one that it is held against, and how many times faster it is to be.
RATIOS = (("2 threads", "1 thread", 1.9), ("2 processes", "1 process", 1.9), ("2 Dask workers", "1 Dask worker", 1.8))


@contextmanager
def threads(n: int, runs: int) -> Iterator[Way]:
    """A search by the command alone; what it prints says what was found."""
    words = [command(), "explore", str(SCENARIO), "--runs", str(runs), "--threads", str(n)]
    yield lambda: subprocess.run(words, check=True, capture_output=True).stdout


def by_executor(executor: lockstep.exploring.Submits, runs: int) -> Way:
    """A search by shards."""
    return lambda: dataclasses.replace(lockstep.explore(SCENARIO, runs=runs, executor=executor, shards=SHARDS), notes=())


@contextmanager
def processes(n: int, runs: int) -> Iterator[Way]:
    """A search by shards in a pool of `n` processes that have started."""
    with concurrent.futures.ProcessPoolExecutor(n) as pool:
        list(pool.map(time.sleep, [0.2] * n))
        yield by_executor(pool, runs)


@contextmanager
def dask(n: int, runs: int) -> Iterator[Way]:
    """A search by shards on a cluster of `n` workers that have started, each a process, with nothing else to do."""
    with (tempfile.TemporaryDirectory(prefix="spread-", ignore_cleanup_errors=True) as folder,
          distributed.LocalCluster(n_workers=n, threads_per_worker=1, processes=True, dashboard_address=":0",
                                   local_directory=folder) as cluster,
          distributed.Client(cluster) as client):
        client.wait_for_workers(n, timeout=120)
        yield by_executor(client.get_executor(), runs)


def measure(ways: dict[str, AbstractContextManager[Way]], best: dict[str, float], found: dict[str, set[str]]) -> None:
    """Takes the seconds of each way, if they are its least, and what it found."""
    for name, one in ways.items():
        with one as way:  # Nothing of another way is there meanwhile: idle workers alone take some of a core.
            began = time.perf_counter()
            result = way()
            took = time.perf_counter() - began
        found.setdefault(type(result).__name__, set()).add(str(result))
        best[name] = min(best.get(name, took), took)


def ways_of(runs: int) -> dict[str, AbstractContextManager[Way]]:
    """By their names, on one core and on two."""
    ways: dict[str, AbstractContextManager[Way]] = {}
    for n in (1, 2):
        ways[f"{n} thread{'s' * (n - 1)}"] = threads(n, runs)
        ways[f"{n} process{'es' * (n - 1)}"] = processes(n, runs)
        ways[f"{n} Dask worker{'s' * (n - 1)}"] = dask(n, runs)
    return ways


def main(runs: int, rounds: int) -> int:
    """Prints times and ratios. Returns: 1 if a goal is missed."""
    best: dict[str, float] = {}
    found: dict[str, set[str]] = {}
    for _ in range(rounds):
        measure(ways_of(runs), best, found)
    for results in found.values():
        assert len(results) == 1, f"the ways do not find the same: {results}"
    missed = 0
    print(f"{runs} runs of {SCENARIO.name}, {SHARDS} shards, the least of {rounds} rounds")
    for name, against, goal in RATIOS:
        ratio = best[against] / best[name]
        missed += ratio < goal
        print(f"{name:15} {best[name]:7.2f} s   {against:14} {best[against]:7.2f} s   {ratio:5.2f} x   "
              f"goal {goal} x   {'met' if ratio >= goal else 'missed'}")
    return int(missed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    sys.exit(main(given.runs, given.rounds))
