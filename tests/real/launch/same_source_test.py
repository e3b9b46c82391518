#!/usr/bin/env python3
"""Runs examples/same_source as virtual ranks and as processes; all must print the same bits."""

import os
import re
import shutil
import subprocess
import sys

from real_processes import CLEAN

PLACE = {"RANK": "0", "WORLD_SIZE": "2"}
# Places of a rank that make no sense, and what the program says of each.
WRONG = (
    ({"RANK": "x"}, "WORLD_SIZE: RANK is set but WORLD_SIZE is not"),
    ({"WORLD_SIZE": "2"}, "RANK: WORLD_SIZE is set but RANK is not"),
    ({**PLACE, "WORLD_SIZE": "two"}, "WORLD_SIZE: 'two' is not a whole number, 0 or more"),
    ({**PLACE, "RANK": "-1"}, "RANK: '-1' is not a whole number, 0 or more"),
    ({**PLACE, "RANK": "2"}, "RANK: rank 2 in a world of 2"),
    ({**PLACE, "MASTER_PORT": "http"}, "MASTER_PORT: 'http' is not a whole number, 0 or more"),
    ({**PLACE, "MASTER_PORT": "70000"}, "MASTER_PORT: '70000' is not a port"),
    ({**PLACE, "WORLD_SIZE": "3"}, "3"),
)


def output_of(command, **variables):
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **variables})
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    """Compares the two."""
    lockstep, program = sys.argv[1:3]
    simulated = output_of([program]).splitlines()
    if not (len(simulated) == 3 and simulated[0].startswith("rank 0: loss 0x")):
        sys.exit(f"unexpected output: {simulated}")
    for variables, shown in WRONG:
        done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False,
                              env={**CLEAN, "LOCKSTEP_BACKEND": "gloo", **variables})
        if done.returncode != 2 or not done.stderr.startswith("same_source: ") or shown not in done.stderr:
            sys.exit(f"with {variables} it ended with {done.returncode}: {done.stderr}")
    real = output_of([lockstep, "launch", "--standalone", "--nproc-per-node", "2", "--backend", "gloo",
                      "--", program]).splitlines()
    for rank in range(2):
        own = [re.sub(r"^\[rank \d+\] ", "", line) for line in real
               if line.startswith(f"[rank {rank}] ")]
        if own != simulated:
            sys.exit(f"rank {rank} printed\n{own}\ninstead of\n{simulated}")
    torchrun = shutil.which("torchrun") or "/usr/bin/torchrun"
    if os.access(torchrun, os.X_OK):
        # Streams are named because 1.13 fails under Python 3.11 when they are not.
        text = output_of([torchrun, "--no_python", "--nproc_per_node", "2", "--master_port", "29641",
                          "-r", "1", "-t", "1", program], LOCKSTEP_BACKEND="gloo")
        lines = sorted(re.sub(r"^\[\w+\]:", "", line) for line in text.splitlines())
        if lines != sorted(2 * simulated):
            sys.exit(f"under torchrun they printed\n{text}\ninstead of\n{simulated}")
    print("the same bits on virtual ranks and processes:", *simulated, sep="\n  ")


if __name__ == "__main__":
    main()
