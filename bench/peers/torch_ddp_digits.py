#!/usr/bin/env python3
"""The digits job of scenarios/jobs/digits.toml on PyTorch DistributedDataParallel over gloo.

Prints one JSON line: seconds from start to end of the whole job (processes included), seconds per step
once everything is warm, and the held-out accuracy. Same model, data, split, sampler, batch, optimizer
and number of epochs as the scenario; the split is the one random_split makes from the same seed.
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
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def load(path, holdout, split_seed):
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.strip()
            if line and line[0].isdigit():
                rows.append([float(word) for word in line.split(",")])
    table = torch.tensor(rows, dtype=torch.float32)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(split_seed))
    train_rows, held = order[:-holdout], order[-holdout:]
    x, y = table[:, :-1] / 16.0, table[:, -1].long()
    return TensorDataset(x[train_rows], y[train_rows]), (x[held], y[held])


def train(rank, args, result_path):
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(args.port)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    torch.manual_seed(args.init_seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=args.lr, momentum=args.momentum)
    loss_of = torch.nn.CrossEntropyLoss()
    dataset, (x_held, y_held) = load(args.data, args.holdout, args.split_seed)
    sampler = DistributedSampler(dataset, shuffle=True, seed=args.seed)
    loader = DataLoader(dataset, batch_size=args.batch, sampler=sampler)
    step_seconds = []
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            begin = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            loss_of(ddp(x), y).backward()
            optimizer.step()
            step_seconds.append(time.perf_counter() - begin)
    if rank == 0:
        with torch.no_grad():
            accuracy = (model(x_held).argmax(1) == y_held).float().mean().item()
        warm = sorted(step_seconds[len(step_seconds) // 4:])
        with open(result_path, "w", encoding="utf-8") as file:
            json.dump({"step_seconds": warm[len(warm) // 2], "steps": len(step_seconds),
                       "accuracy": accuracy}, file)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--holdout", type=int, required=True)
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0, help="of the sampler")
    parser.add_argument("--init-seed", type=int, default=0)
    parser.add_argument("--port", type=int, default=29713)
    args = parser.parse_args()
    with tempfile.NamedTemporaryFile(suffix=".json", delete=False) as file:
        result_path = file.name
    begin = time.perf_counter()
    mp.spawn(train, args=(args, result_path), nprocs=args.ranks, join=True)
    total = time.perf_counter() - begin
    with open(result_path, encoding="utf-8") as file:
        result = json.load(file)
    os.unlink(result_path)
    result["total_seconds"] = total
    result["torch"] = torch.__version__
    json.dump(result, sys.stdout)
    print()


if __name__ == "__main__":
    main()
