#!/usr/bin/env python3
"""What a PyTorch job costs as virtual ranks, beside torchrun with Gloo: ratios in one run.

  virtual_ranks_bench.py [--ranks 4 8 16] [--steps 40] [--repeat 3]

The same script runs under both launchers, in turn; of each figure the smallest of the repetitions counts, which other
programs disturb least. Run it through `./dev bench virtual`, or with PYTHONPATH=build/python and a Python that has PyTorch.
"""
from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Clocks of module time show virtual time as well; the kernel's are read by their number.
SCRIPT = '''
import json, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)

imported = now()
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
first = now()
model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 64)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
times = []
for _ in range(int(sys.argv[2])):
    begin = now()
    optimizer.zero_grad()
    model(torch.randn(8, 256)).square().mean().backward()
    optimizer.step()
    times.append(now() - begin)
private = sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Private"))
with open(f"{sys.argv[1]}/{dist.get_rank()}.json", "w") as out:
    json.dump({"imported": imported, "first": first, "step": sorted(times)[len(times) // 2], "private_kib": private}, out)
dist.destroy_process_group()
'''
LAUNCHERS = {"virtual": ("lockstep", "torchrun", "--no-record"), "torchrun": ("torch.distributed.run", "--standalone")}
MIB = 1024


def run(launcher: str, ranks: int, steps: int, folder: Path) -> dict[str, float]:
    """One job. Seconds, and MiB."""
    script = folder / "job.py"
    script.write_text(SCRIPT)
    results = folder / f"{launcher}{time.monotonic_ns()}"
    results.mkdir()
    begin = time.clock_gettime(time.CLOCK_MONOTONIC)
    ran = subprocess.run([sys.executable, "-m", *LAUNCHERS[launcher], "--nproc-per-node", str(ranks), str(script), str(results),
                          str(steps)], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if ran.returncode:
        sys.exit(f"{launcher} of {ranks} ranks exits with {ran.returncode}:\n{ran.stderr}")
    whole = time.clock_gettime(time.CLOCK_MONOTONIC) - begin
    rows = [json.loads(path.read_text()) for path in results.iterdir()]
    assert len(rows) == ranks
    return {"whole_s": whole, "step_ms": 1000 * max(row["step"] for row in rows),
            "private_mib": statistics.mean(row["private_kib"] for row in rows) / MIB}


def cpu_seconds() -> float:
    """Of this process and of all that it has waited for: what a busy machine disturbs less than the time on the clock."""
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def first_collective(ranks: int, folder: Path) -> tuple[float, float]:
    """Seconds from the fork of the first rank, everything being imported, until every rank has its first result; and CPU
    seconds of the whole job, which does nothing more.
    """
    from lockstep.virtual import launch, options, zygote

    zygote.prepare()
    script = folder / "first.py"
    script.write_text(SCRIPT.partition("model = ")[0] + "with open(f'{sys.argv[1]}/{dist.get_rank()}', 'w') as out:\n"
                      "    out.write(repr(first))\n")
    results = folder / f"first{time.monotonic_ns()}"
    results.mkdir()
    given = options.parse(["--nproc-per-node", str(ranks), "--no-record", str(script), str(results)])
    begin, cpu = time.clock_gettime(time.CLOCK_MONOTONIC), cpu_seconds()
    outcome = launch.run(given, 0, "", quiet=True)
    assert outcome.ok, outcome.lines
    return max(float(path.read_text()) for path in results.iterdir()) - begin, cpu_seconds() - cpu


def pytest_seconds(ranks: int) -> float:
    """What a test of pytest-lockstep costs: three steps of DDP, recorded and judged."""
    import torch
    import torch.distributed as dist

    from lockstep.virtual.function_job import Ending, RankResult, Settings, run_function

    def body() -> None:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 4)).sum().backward()
            optimizer.step()
        assert dist.get_world_size() == ranks

    begin = time.perf_counter()
    run_function(body, Settings(ranks=ranks, backend="gloo"), lambda error: RankResult(Ending.RAISED, repr(error)))
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; the smallest of {given.repeat}")
    print("ranks | first collective of all | pytest test | private memory of a rank | step, of Gloo's | whole job, torchrun's of it")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for ranks in given.ranks:
            best: dict[str, dict[str, float]] = {}
            for _ in range(given.repeat):
                for launcher in LAUNCHERS:
                    found = run(launcher, ranks, given.steps, folder)
                    known = best.setdefault(launcher, found)
                    best[launcher] = {name: min(known[name], value) for name, value in found.items()}
            first, cpu = map(min, zip(*(first_collective(ranks, folder) for _ in range(given.repeat))))
            test = min(pytest_seconds(ranks) for _ in range(given.repeat))
            ours, theirs = best["virtual"], best["torchrun"]
            print(f"{ranks:5} | {first:13.2f} s ({cpu:.2f} s of CPU) | {test:8.2f} s  | {ours['private_mib']:7.1f} MiB ({theirs['private_mib']:.0f} under "
                  f"torchrun) | {ours['step_ms'] / theirs['step_ms']:.2f} ({ours['step_ms']:.1f} of {theirs['step_ms']:.1f} ms) | "
                  f"{theirs['whole_s'] / ours['whole_s']:.1f} x ({theirs['whole_s']:.1f} of {ours['whole_s']:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
