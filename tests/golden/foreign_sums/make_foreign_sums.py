#!/usr/bin/env python3
"""Writes foreign_sums.txt beside it: all-reduces by libraries that are not ours, by each algorithm they offer.

Needs g++, libgloo-dev, and both openmpi-bin libopenmpi-dev and mpich libmpich-dev (Debian 12 has them side by side).

    group TYPE RANKS          what follows belongs to it
    contribution WORDS        of each rank, in order: bits of the elements, hexadecimal
    result LIBRARY ALGORITHM WORDS
"""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ELEMENTS = 40
RANKS = (2, 3, 4, 5, 8)
OPEN_MPI = {"linear": 1, "nonoverlapping": 2, "recursive_doubling": 3, "ring": 4, "segmented_ring": 5, "rabenseifner": 6}
MPICH = ("recursive_doubling", "reduce_scatter_allgather")
GLOO = ("ring", "ring_chunked", "halving_doubling", "bcube", "new_ring", "new_bcube")


def output(*command: str, **environment: str) -> list[str]:
    done = subprocess.run(command, text=True, capture_output=True, timeout=120, env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return [line for line in done.stdout.splitlines() if line.startswith(("contribution", "result"))]


def version(command: str) -> str:
    return subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", command], text=True, capture_output=True,
                          check=True).stdout


def main() -> None:
    lines = [f"# {name} {version(name)}" for name in ("libopenmpi-dev", "libmpich-dev", "libgloo-dev")]
    with tempfile.TemporaryDirectory() as folder:
        for flavour in ("openmpi", "mpich"):
            subprocess.run([f"mpicc.{flavour}", "-O2", str(HERE / "sum_mpi.c"), "-o", f"{folder}/{flavour}", "-lm"], check=True)
        subprocess.run(["g++", "-O2", "-std=c++17", str(HERE / "sum_gloo.cc"), "-o", f"{folder}/gloo", "-lgloo", "-lpthread"],
                       check=True)
        for kind in ("float", "double"):
            for ranks in RANKS:
                runs = {}
                for name, number in OPEN_MPI.items():
                    runs["openmpi", name] = output(
                        "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks),
                        "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", str(number),
                        f"{folder}/openmpi", kind, str(ELEMENTS))
                for name in MPICH:
                    runs["mpich", name] = output(
                        "mpirun.mpich", "-n", str(ranks), f"{folder}/mpich", kind, str(ELEMENTS),
                        MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=name, MPIR_CVAR_DEVICE_COLLECTIVES="none",
                        MPIR_CVAR_ENABLE_SMP_COLLECTIVES="0")
                for name in GLOO:
                    runs["gloo", name] = output(f"{folder}/gloo", name, kind, str(ranks), str(ELEMENTS))
                parts = {tuple(run[:-1]) for run in runs.values()}
                assert len(parts) == 1, "all libraries add the same numbers"
                lines += [f"group {kind} {ranks}", *parts.pop()]
                lines += [f"result {library} {name} {run[-1].split(' ', 1)[1]}" for (library, name), run in runs.items()]
    (HERE / "foreign_sums.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
