#!/usr/bin/env python3
"""DistributedDataParallel over gloo on the MLP 16-16-1, batches of 8, SGD: one process per rank.

Prints one JSON line: seconds until every process has its wrapped model, seconds of a step once
everything is warm (the median), and seconds of the whole job.

Usage: torch_ddp_step.py [--ranks 32] [--steps 20] [--port 29731]
"""
import argparse
import json
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def train(rank, args, result_path):
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(args.port)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    loss_of = torch.nn.MSELoss()
    x, target = torch.full((8, 16), 0.25 + rank), torch.ones(8, 1)
    dist.barrier()
    started = time.time() - args.begin
    seconds = []
    for _ in range(args.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(ddp(x), target).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        warm = sorted(seconds[len(seconds) // 4:])
        with open(result_path, "w", encoding="utf-8") as file:
            json.dump({"start_seconds": started, "step_seconds": warm[len(warm) // 2]}, file)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--port", type=int, default=29731)
    args = parser.parse_args()
    args.begin = time.time()
    with tempfile.NamedTemporaryFile(suffix=".json", delete=False) as file:
        result_path = file.name
    mp.spawn(train, args=(args, result_path), nprocs=args.ranks, join=True)
    with open(result_path, encoding="utf-8") as file:
        result = json.load(file)
    os.unlink(result_path)
    result["job_seconds"] = time.time() - args.begin
    result["torch"] = torch.__version__
    json.dump(result, sys.stdout)
    print()


if __name__ == "__main__":
    main()
