#!/usr/bin/env python3
"""What recording a PyTorch job costs: recorded and unrecorded steps, alternating in one run.

  record_bench.py [--ranks 2] [--budget 0.05 | --full] [--rounds N] [--steps N] [--model tiny|small|large]...

Two ranks over gloo train the same model. Rounds of steps are recorded and unrecorded alternately: each
recorded round writes a trace of its own, and what the recorder patches is undone after it. A row is the
median time of a round's step, the median and quartiles of the ratios of each recorded round to the mean
of the unrecorded ones on both sides of it, the ratio of the quickest quarters of both kinds, which other
programs disturb less, and what recording adds to a step in processor time of its thread. Run it through
`./dev bench record`, or with PYTHONPATH=build/python and a Python that has PyTorch.
"""
from __future__ import annotations

import argparse
import itertools
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo  # noqa: F401  DDP's constructor imports it.
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Size(NamedTuple):
    widths: tuple[int, ...]
    rounds: int
    steps: int  # Measured ones of a round.


SIZES = {"tiny": Size((64, 64, 64, 1), 48, 100), "small": Size((512, 1024, 512, 64, 1), 12, 100),
         "large": Size((1024, 4096, 3600, 256, 1), 5, 40)}
BATCH = 16
WARM_STEPS = 80  # Of each recorded round: the recorder learns what a step costs.


class Job:
    """One rank's model, wrapped anew for each round."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        torch.manual_seed(1)
        layers: list[nn.Module] = []
        for inputs, outputs in zip(widths, widths[1:]):
            layers += [nn.Linear(inputs, outputs), nn.Tanh()]
        self.net = nn.Sequential(*layers[:-1])
        self.data = torch.utils.data.TensorDataset(torch.randn(4096, widths[0]), torch.randn(4096, 1))
        self.n_parameters = sum(p.numel() for p in self.net.parameters())

    def round(self, warm: int, steps: int) -> tuple[float, float]:
        """Seconds of a step: by the clock, and of this thread's processor."""
        model = DistributedDataParallel(self.net)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
        sampler = torch.utils.data.distributed.DistributedSampler(self.data)
        loader = torch.utils.data.DataLoader(self.data, batch_size=BATCH, sampler=sampler)
        batches = (batch for epoch in itertools.count() for batch in _pass(sampler, loader, epoch))
        for number in range(warm + steps):
            if number == warm:
                wall, own = time.perf_counter(), time.thread_time()
            x, y = next(batches)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        return (time.perf_counter() - wall) / steps, (time.thread_time() - own) / steps


def _pass(sampler: Any, loader: Any, epoch: int) -> Any:
    sampler.set_epoch(epoch)
    return loader


def rank(folder: Path, name: str, budget: float, rounds: int, steps: int, warm: int) -> None:
    import lockstep

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    job = Job(SIZES[name].widths)
    plain = [job.round(min(10, warm), steps)]
    recorded: list[tuple[float, float]] = []
    looked = 0
    for number in range(rounds):
        trace = folder / f"{name}-{number}"
        dist.barrier()
        with lockstep.record(trace, budget=budget):
            recorded.append(job.round(warm, steps))
        dist.barrier()
        plain.append(job.round(min(10, warm), steps))
        if dist.get_rank() == 0:
            looked = sum('"point":"used"' in line for file in trace.glob("*00000.jsonl")
                         for line in file.open(encoding="utf-8"))
        dist.barrier()
        shutil.rmtree(trace, ignore_errors=True)
    if dist.get_rank() == 0:
        beside = [((a[0] + b[0]) / 2, (a[1] + b[1]) / 2) for a, b in zip(plain, plain[1:])]
        ratios = [one[0] / other[0] for one, other in zip(recorded, beside)]
        added = [one[1] - other[1] for one, other in zip(recorded, beside)]
        ordered = sorted(ratios)
        print(f"{name:6} {job.n_parameters:>11,} {'full' if not budget else f'{budget:.0%}':>6} "
              f"{statistics.median(wall for wall, _ in plain) * 1e3:8.2f} ms {statistics.median(ratios):7.3f} "
              f"[{ordered[len(ordered) // 4]:.3f}, {ordered[-1 - len(ordered) // 4]:.3f}] "
              f"{_quick(recorded) / _quick(plain):7.3f}  "
              f"{statistics.median(added) * 1e6:+6.0f} us of its thread  "
              f"{looked:5} of {warm + steps} steps looked at, {rounds} rounds", flush=True)
    dist.destroy_process_group()


def _quick(rounds: list[tuple[float, float]]) -> float:
    """Seconds of a step in the quickest quarter of the rounds: whatever else runs only adds to them."""
    return statistics.mean(sorted(wall for wall, _ in rounds)[:max(1, len(rounds) // 4)])


def run(name: str, given: argparse.Namespace) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    budget = 0.0 if given.full else given.budget
    size = SIZES[name]
    warm, steps, rounds = 5 if given.full else WARM_STEPS, given.steps or size.steps, given.rounds or size.rounds
    children = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(given.ranks):
            child = os.fork()
            if child == 0:
                os.environ.update({"RANK": str(number), "WORLD_SIZE": str(given.ranks),
                                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                                   "GLOO_SOCKET_IFNAME": "lo", "LOCKSTEP_RUN": "bench"})
                try:
                    rank(Path(scratch), name, budget, rounds, steps, warm)
                    os._exit(0)
                except BaseException as error:
                    print(f"rank {number}: {error!r}", file=sys.stderr, flush=True)
                    os._exit(1)
            children.append(child)
        return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--budget", type=float, default=0.05)
    parser.add_argument("--full", action="store_true", help="look at every step")
    parser.add_argument("--rounds", type=int, help="instead of 48 for tiny, 12 for small, 5 for large")
    parser.add_argument("--steps", type=int, help="measured ones of a round, instead of 100, 100, 40")
    parser.add_argument("--model", action="append", choices=sorted(SIZES))
    given = parser.parse_args()
    print("model   parameters budget  unrecorded   ratio [quartiles]   quickest quarter")
    return max(run(name, given) for name in given.model or list(SIZES))


if __name__ == "__main__":
    sys.exit(main())
