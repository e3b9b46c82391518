#!/usr/bin/env python3
"""What PyTorch's ZeroRedundancyOptimizer does on gloo, into zero.txt: partitions, training with
uneven inputs under a join context, errors, and model averaging.

Gradients are numbers of a formula (coefficient() below) that the comparing test repeats.
Run: python3 tests/golden/make_zero.py
"""

import os
import pathlib
import random
import struct
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.algorithms.model_averaging.averagers as averagers
import torch.multiprocessing as mp
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager)
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from golden_format import write

SIZES = [3, 5, 2, 4]
KINDS = {
    "sgd": (torch.optim.SGD, {"lr": 0.25, "momentum": 0.5}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}
# name, lengths by rank, optimizer, parameters_as_bucket_view
LOOPS = [
    ("uneven_sgd", [1, 3], "sgd", 0),
    ("uneven_adam", [3, 1], "adam", 0),
    ("uneven_adamw_view", [1, 2, 4], "adamw", 1),
    ("even_sgd_view", [3, 3, 3], "sgd", 1),
]
PARTITIONS = [[[5, 3, 3, 3, 8, 1, 1, 2]], [[4, 4, 4, 4], [9, 1, 1], [2, 2]], [[9, 7, 5, 3] * 3]]
PERIODIC = [(2, 0), (3, 2), (1, 1), (4, 3)]  # period, warmup_steps
HIERARCHY = ({2: 2, 4: 4}, 1)  # {period: group size}, warmup_steps, on four ranks


def coefficient(rank, step, parameter, element):
    return float((rank * 7 + step * 5 + parameter * 3 + element * 2) % 9 - 4)


def words(tensor):
    return " ".join(struct.pack(">f", v).hex() for v in tensor.reshape(-1).tolist())


def parameters_of(sizes):
    return [torch.nn.Parameter(torch.full((n,), float(i + 1))) for i, n in enumerate(sizes)]


def partition_line(n_ranks, groups):
    lists = [parameters_of(sizes) for sizes in groups]
    flat = [p for group in lists for p in group]
    place = {id(p): i for i, p in enumerate(flat)}
    zero = ZeroRedundancyOptimizer([{"params": g} for g in lists], torch.optim.SGD, lr=1.0)
    ranks = []
    for shares in zero._partition_parameters():
        ranks.append(";".join(",".join(str(place[id(p)]) for p in g["params"]) for g in shares))
    sizes = ";".join(",".join(str(n) for n in group) for group in groups)
    return f"partition {n_ranks} {sizes} : {'/'.join(ranks)}"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for i, p in enumerate(parameters_of(SIZES)):
            self.register_parameter(f"p{i}", p)

    def forward(self, rank, step):
        total = None
        for i, p in enumerate(self.parameters()):
            factors = [coefficient(rank, step, i, e) for e in range(p.numel())]
            term = (p * torch.tensor(factors)).sum()
            total = term if total is None else total + term
        return total


def loop_lines(rank, name, lengths, kind, view):
    model = Model()
    ddp = DistributedDataParallel(model)
    cls, options = KINDS[kind]
    zero = ZeroRedundancyOptimizer(
        model.parameters(), cls, parameters_as_bucket_view=bool(view), **options)
    lines = []
    with Join([ddp, zero]):
        for step in range(lengths[rank]):
            model.zero_grad(set_to_none=True)
            ddp(rank, step).backward()
            zero.step()
            text = " | ".join(words(p.detach()) for p in model.parameters())
            lines.append(f"step {name} {rank} {step} : {text}")
    text = " | ".join(words(p.detach()) for p in model.parameters())
    lines.append(f"end {name} {rank} : {text}")
    zero.consolidate_state_dict(to=0)
    if rank == 0:
        state = zero.state_dict()["state"]
        for i in range(len(SIZES)):
            for key in sorted(state[i]):
                value = state[i][key]
                lines.append(f"state {name} {key} {i} : {words(torch.as_tensor(value).float())}")
    else:
        try:
            zero.state_dict()
        except RuntimeError as e:
            lines.append(f"unconsolidated {name} {rank} : {e}")
    return lines


def averaging_lines(rank, n_ranks):
    lines = []

    def train(name, averager):
        model = Model()
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.25), averager)
        for step in range(9):
            for i, p in enumerate(model.parameters()):
                # One parameter never has a gradient: it stays out.
                p.grad = None if i == 2 else torch.tensor(
                    [coefficient(rank, step, i, e) for e in range(p.numel())])
            optimizer.step()
            text = " | ".join(words(p.detach()) for p in model.parameters())
            lines.append(f"average {n_ranks} {name} {rank} {step} : {text}")

    for period, warmup in PERIODIC:
        train(f"periodic {period} {warmup}",
              averagers.PeriodicModelAverager(period=period, warmup_steps=warmup))
    if n_ranks == 4:
        periods, warmup = HIERARCHY
        has_gpu, torch.cuda.is_available = torch.cuda.is_available, lambda: True  # For subgroups.
        averager = HierarchicalModelAverager(period_group_size_dict=periods, warmup_steps=warmup)
        torch.cuda.is_available = has_gpu
        train(f"hierarchy 0 {warmup}", averager)
    return lines


def run(rank, n_ranks, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29730 + n_ranks))
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    lines = []
    if rank == 0:
        draw = random.Random(n_ranks)
        drawn = [[[draw.randint(1, 9) for _ in range(draw.randint(1, 9))]
                  for _ in range(draw.randint(1, 3))] for _ in range(20)]
        lines += [partition_line(n_ranks, groups) for groups in PARTITIONS + drawn]
    for name, lengths, kind, view in LOOPS:
        if len(lengths) == n_ranks:
            lines += loop_lines(rank, name, lengths, kind, view)
    lines += averaging_lines(rank, n_ranks)
    if rank == 0 and n_ranks == 2:
        mixed = parameters_of([1]) + [torch.nn.Parameter(torch.ones(1, dtype=torch.float64))]
        for name, given in (("empty", []), ("mixed", mixed)):
            try:
                ZeroRedundancyOptimizer(given, torch.optim.SGD, lr=1.0)
            except ValueError as e:
                lines.append(f"error {name} : {e}")
    gathered = [None] * n_ranks
    dist.all_gather_object(gathered, lines)
    if rank == 0:
        path.write_text("\n".join(line for part in gathered for line in part))
    dist.barrier()


def main():
    here = pathlib.Path(__file__).parent
    lines = []
    for n_ranks in (2, 3, 4):
        path = here / f"zero.{n_ranks}.part"
        mp.spawn(run, args=(n_ranks, path), nprocs=n_ranks)
        lines += path.read_text().split("\n")
        path.unlink()
    write(here / "zero.txt", "make_zero.py", "kind arguments : values", lines)


if __name__ == "__main__":
    sys.exit(main())
