#!/usr/bin/env python3
"""Which of three bucket sizes makes the shortest step: as `lockstep whatif` predicts it, and as PyTorch has it.

  whatif_bench.py [--rounds 5] [--steps 40]

For each of two networks one run of a PyTorch job on two Gloo ranks is recorded; links and computing of a scenario of the
same network are fitted to it, and `lockstep whatif` ranks three bucket sizes. Then the job runs unrecorded with each of
them, alternating; of a setting the smallest median of a run counts, which other programs disturb least. Two settings whose
runs overlap are a tie, which no order of theirs contradicts. Run it through `./dev bench whatif`.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve()
COMMAND = HERE.parents[1] / "build" / "bin" / "lockstep"


class Network(NamedTuple):
    """An MLP, and bucket sizes: a call per parameter, one per some layers, and one in all."""
    title: str
    widths: list[int]
    batch: int
    caps_mb: tuple[float, float, float]


NETWORKS = (Network("41 layers, up to 256 wide", [256] + [256] * 40 + [10], 64, (0.001, 0.3, 25.0)),
            Network("201 layers, up to 64 wide", [64] + [64] * 200 + [10], 4, (0.001, 0.05, 25.0)))
JOB = '''
import os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

cap, steps, widths, batch = float(sys.argv[1]), int(sys.argv[2]), eval(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
layers = []
for before, after in zip(widths, widths[1:]):
    layers += [nn.Linear(before, after), nn.ReLU()]
model = DistributedDataParallel(nn.Sequential(*layers[:-1]), bucket_cap_mb=cap)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(batch, widths[0]), torch.randn(batch, widths[-1])
times = []
for _ in range(steps):
    begin = time.perf_counter()
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    times.append(time.perf_counter() - begin)
if dist.get_rank() == 0:
    print("median", sorted(times)[len(times) // 2], flush=True)
dist.destroy_process_group()
# A thread of Gloo may still let go of its last work while the interpreter ends, and abort the process: in 5 of 18 runs.
if "lockstep" not in sys.modules:
    os._exit(0)
'''


def scenario(network: Network) -> str:
    widths, batch = network.widths, network.batch
    return f'''format = 1
title  = "the same network"
world  = {{ ranks = 2 }}
sim    = {{ order = "gloo-ring" }}
model  = {{ kind = "mlp", widths = {widths}, activation = "relu" }}
data   = {{ kind = "synthetic", size = {batch * 2 * 4}, features = {widths[0]}, outputs = {widths[-1]} }}
loader = {{ batch = {batch} }}
ddp    = {{ first_bucket_bytes = 1 }}
loop   = {{ steps = 4 }}
'''


def torchrun(folder: Path, network: Network, cap: float, steps: int, *ahead: str) -> float:
    """Seconds of a median step on rank 0."""
    done = subprocess.run(
        [*ahead, sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(folder / "job.py"), str(cap), str(steps), str(network.widths), str(network.batch)],
        text=True, capture_output=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return float(done.stdout.split("median")[1].split()[0])


def predicted(folder: Path, network: Network, steps: int) -> tuple[dict[float, float], list[str]]:
    """Seconds of a step for each bucket size, and what they rest on."""
    trace = folder / "trace"
    torchrun(folder, network, network.caps_mb[1], steps, sys.executable, "-m", "lockstep", "record", "-o", str(trace),
             "--budget", "0.05", "--")
    sweep = "ddp.bucket_cap_mb=" + ",".join(map(str, network.caps_mb))
    asked = subprocess.run([str(COMMAND), "whatif", "job.toml", "--calibrate", "trace", "--sweep", sweep, "--json"],
                           cwd=folder, text=True, capture_output=True, check=True)
    shutil.rmtree(trace)
    answer = json.loads(asked.stdout)
    medians = (setup["times"]["step"]["median_ns"] / 1e9 for setup in answer["setups"])
    return dict(zip(network.caps_mb, medians)), answer["rests_on"]


def pairs_ordered(prediction: dict[float, float], runs: dict[float, list[float]]) -> tuple[int, int]:
    """How many pairs of settings whose runs do not overlap have the predicted order, and how many there are."""
    apart = [(quick, slow) for quick in runs for slow in runs if max(runs[quick]) < min(runs[slow])]
    return sum(prediction[quick] < prediction[slow] for quick, slow in apart), len(apart)


def judge(network: Network, rounds: int, steps: int) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "job.py").write_text(JOB)
        (folder / "job.toml").write_text(scenario(network))
        prediction, rests_on = predicted(folder, network, steps)
        runs: dict[float, list[float]] = {cap: [] for cap in network.caps_mb}
        for _ in range(rounds):
            for cap in network.caps_mb:
                runs[cap].append(torchrun(folder, network, cap, steps))
    print(network.title, *rests_on, sep="\n  ")
    print("bucket_cap_mb  predicted ms  measured ms")
    for cap, times in runs.items():
        print(f"{cap:>13}  {1000 * prediction[cap]:>12.2f}  {1000 * min(times):>11.2f} to {1000 * max(times):.2f}")
    right, n = pairs_ordered(prediction, runs)
    print(f"of {n} pairs that differ by more than their runs, {right} are in the predicted order", flush=True)
    return right == n


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--steps", type=int, default=40)
    given = arguments.parse_args()
    return 0 if all([judge(network, given.rounds, given.steps) for network in NETWORKS]) else 1


if __name__ == "__main__":
    sys.exit(main())
