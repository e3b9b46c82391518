#!/usr/bin/env python3
"""What PyTorch's DistributedDataParallel makes of generated jobs on gloo: ddp.txt, ddp_torch2.txt.

The jobs are drawn by the live probe (tests/programs): python3 tests/golden/make_ddp.py PROBE. The
version of torch decides which file is written. Lists of numbers are kept as FNV-1a of their text.
"""

import pathlib
import subprocess
import sys

import torch

from golden_format import digest, write

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "live"))
import torch_jobs  # noqa: E402

SEED = 187
N_JOBS = 24


def main():
    words = [sys.argv[1], "draw", str(SEED), str(N_JOBS)]
    jobs = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    lines = []
    for job, answer in zip(jobs, torch_jobs.run_jobs(jobs)):
        lines.append(f"job : {job}")
        for key, text in sorted(answer.items()):
            lines.append(f"{key} : {digest(text.encode()) if key[0] in 'gpb' else text}")
    name = "ddp.txt" if torch.__version__.startswith("1.") else "ddp_torch2.txt"
    write(HERE / name, "make_ddp.py", "kind rank step : values (tests/programs/run.h)", lines)


if __name__ == "__main__":
    main()
