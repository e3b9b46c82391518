#!/usr/bin/env python3
"""What a second core and a second Dask worker do for a search: spread_bench.py [--runs 8000] [--rounds 5]

The same search of one scenario on one core and on two, by threads (`-j 2`), by shards in processes of their own, and on Dask
clusters of one worker and of two. Of each way the least time counts; ways alternate, so that what else the machine does
falls on all of them. The result is the same object every time, which is checked. Run it through `./dev bench spread`.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import distributed
import lockstep
from lockstep.native import command

if TYPE_CHECKING:
    from collections.abc import Callable

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "healthy" / "any_schedule.toml"
SHARDS = 8
# A way, the one that it is held against, and how many times faster it is to be.
RATIOS = (("2 threads", "1 thread", 1.9), ("2 processes", "1 process", 1.9), ("2 Dask workers", "1 Dask worker", 1.8))


def by_threads(n: int, runs: int) -> Callable[[], object]:
    """A search by the command alone; what it prints says what was found."""
    words = [command(), "explore", str(SCENARIO), "--runs", str(runs), "--threads", str(n)]
    return lambda: subprocess.run(words, check=True, capture_output=True).stdout


def by_executor(executor: lockstep.exploring.Submits, runs: int) -> Callable[[], object]:
    """A search by shards."""
    return lambda: dataclasses.replace(lockstep.explore(SCENARIO, runs=runs, executor=executor, shards=SHARDS), notes=())


def dask(n: int, folder: str) -> tuple[distributed.LocalCluster, distributed.Client]:
    """A cluster of `n` workers, each a process, with nothing else to do."""
    cluster = distributed.LocalCluster(n_workers=n, threads_per_worker=1, processes=True, dashboard_address=":0",
                                       local_directory=folder)
    client = distributed.Client(cluster)
    client.wait_for_workers(n, timeout=120)
    return cluster, client


def measure(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each way: the least of all rounds, without the first."""
    best: dict[str, float] = {}
    found: dict[str, set[str]] = {}
    for one in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            result = way()
            took = time.perf_counter() - began
            found.setdefault(type(result).__name__, set()).add(str(result))
            if one > 0:
                best[name] = min(best.get(name, took), took)
    for results in found.values():
        assert len(results) == 1, f"the ways do not find the same: {results}"
    return best


def main(runs: int, rounds: int) -> int:
    """Prints times and ratios. Returns: 1 if a goal is missed."""
    pools = {n: concurrent.futures.ProcessPoolExecutor(n) for n in (1, 2)}
    with tempfile.TemporaryDirectory(prefix="spread-", ignore_cleanup_errors=True) as folder:
        return compare(runs, rounds, pools, {n: dask(n, folder) for n in (1, 2)})


def compare(runs: int, rounds: int, pools: dict[int, concurrent.futures.ProcessPoolExecutor],
            clusters: dict[int, tuple[distributed.LocalCluster, distributed.Client]]) -> int:
    """As main, with what searches run on."""
    ways: dict[str, Callable[[], object]] = {}
    for n in (1, 2):
        ways[f"{n} thread{'s' * (n - 1)}"] = by_threads(n, runs)
        ways[f"{n} process{'es' * (n - 1)}"] = by_executor(pools[n], runs)
        ways[f"{n} Dask worker{'s' * (n - 1)}"] = by_executor(clusters[n][1].get_executor(), runs)
    best = measure(ways, rounds)
    for cluster, client in clusters.values():
        client.close()
        cluster.close()
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
