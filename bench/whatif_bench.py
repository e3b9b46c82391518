#!/usr/bin/env python3
"""Which of three bucket sizes makes the shortest step: as `lockstep whatif` predicts it, and as PyTorch has it.

  whatif_bench.py [--rounds 5] [--steps 40]

One run of a PyTorch job on two Gloo ranks is recorded; links and computing of a scenario of the same network are fitted to
it, and `lockstep whatif` ranks three bucket sizes. Then the job runs unrecorded with each of them, alternating; of a
setting the smallest median of a run counts, which other programs disturb least. Run it through `./dev bench whatif`.
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

HERE = Path(__file__).resolve()
COMMAND = HERE.parents[1] / "build" / "bin" / "lockstep"
CAPS_MB = (0.001, 0.3, 25.0)  # A call per parameter, one per layer or two, and one in all.
WIDTHS = [256] + [256] * 40 + [10]
BATCH = 64
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
SCENARIO = f'''format = 1
title  = "the same network"
world  = {{ ranks = 2 }}
sim    = {{ order = "gloo-ring" }}
model  = {{ kind = "mlp", widths = {WIDTHS}, activation = "relu" }}
data   = {{ kind = "synthetic", size = {BATCH * 2 * 4}, features = {WIDTHS[0]}, outputs = {WIDTHS[-1]} }}
loader = {{ batch = {BATCH} }}
ddp    = {{ first_bucket_bytes = 1 }}
loop   = {{ steps = 4 }}
'''


def torchrun(folder: Path, cap: float, steps: int, *ahead: str) -> float:
    """Seconds of a median step on rank 0."""
    done = subprocess.run(
        [*ahead, sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(folder / "job.py"), str(cap), str(steps), str(WIDTHS), str(BATCH)],
        text=True, capture_output=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return float(done.stdout.split("median")[1].split()[0])


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--steps", type=int, default=40)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "job.py").write_text(JOB)
        (folder / "job.toml").write_text(SCENARIO)
        torchrun(folder, CAPS_MB[1], given.steps, sys.executable, "-m", "lockstep", "record", "-o",
                 str(folder / "trace"), "--budget", "0.05", "--")
        sweep = "ddp.bucket_cap_mb=" + ",".join(str(cap) for cap in CAPS_MB)
        asked = subprocess.run([str(COMMAND), "whatif", "job.toml", "--calibrate", "trace", "--sweep", sweep, "--json"],
                               cwd=folder, text=True, capture_output=True, check=True)
        answer = json.loads(asked.stdout)
        shutil.rmtree(folder / "trace")
        measured = {cap: min(torchrun(folder, cap, given.steps) for _ in range(given.rounds)) for cap in CAPS_MB}
    predicted = {cap: setup["times"]["step"]["median_ns"] / 1e9 for cap, setup in zip(CAPS_MB, answer["setups"])}
    print("\n".join(answer["rests_on"]))
    print("bucket_cap_mb  predicted ms  measured ms")
    for cap in CAPS_MB:
        print(f"{cap:>13}  {1000 * predicted[cap]:>12.2f}  {1000 * measured[cap]:>11.2f}")
    right = sorted(CAPS_MB, key=predicted.__getitem__) == sorted(CAPS_MB, key=measured.__getitem__)
    print("the order is", "predicted right" if right else "not predicted")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
