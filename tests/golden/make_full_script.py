#!/usr/bin/env python3
"""Writes full_script_torch2.txt: what a whole DDP script prints, run by PyTorch on three processes with Gloo.

    python3 make_full_script.py > full_script_torch2.txt        (PyTorch 2.15)

The script is one that a tutorial prints: a global batch of 6 divided by the number of processes, Adam, a cosine schedule, L1 loss,
barriers, an all_reduce of the loss that adds and is divided by the length of the loader, epochs counted from 1, a validation
sampler that pads. Its validation looks at the batch that training left behind; `fixed` looks at its own.
tests/programs/full_script_test.cc is the same script in C++.
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

GLOBAL_BATCH = 6
EPOCHS = 30
FEATURES = 4


def rows(n, offset):
    """Small dyadic numbers: (n, FEATURES) and (n, 1)."""
    x = [[((7 * (i + offset) + 3 * j) % 11 - 5) / 8 for j in range(FEATURES)] for i in range(n)]
    y = [[((5 * (i + offset)) % 13 - 6) / 4] for i in range(n)]
    return torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)


def summed(loss):
    """The script's all_reduce(loss): a sum."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item()


def main(rank, world, fixed, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.set_num_threads(1)
    assert GLOBAL_BATCH % world == 0, "the global batch must divide"
    batch = GLOBAL_BATCH // world
    model = nn.Linear(FEATURES, 1, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -0.25, 0.125, 1.0]], dtype=torch.float64) + rank)
        model.bias.fill_(0.25 + rank)
    ddp = DistributedDataParallel(model)
    train = TensorDataset(*rows(34, 0))
    valid = TensorDataset(*rows(10, 100))
    sampler = DistributedSampler(train, shuffle=True)
    loader = DataLoader(train, batch_size=batch, sampler=sampler)
    valid_loader = DataLoader(valid, batch_size=1, sampler=DistributedSampler(valid, shuffle=False))
    optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-4, betas=(0.9, 0.95), foreach=False)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30, eta_min=1e-6)
    criterion = nn.L1Loss()
    for epoch in range(1, EPOCHS + 1):
        dist.barrier()
        sampler.set_epoch(epoch)
        printed = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(ddp(x), y)
            loss.backward()
            optimizer.step()
            printed += summed(loss)
        of_valid = 0.0
        with torch.no_grad():
            for own_x, own_y in valid_loader:
                if fixed:
                    x, y = own_x, own_y
                of_valid += summed(criterion(ddp.module(x), y))
        dist.barrier()
        schedule.step()
        if rank == 0:
            print(epoch, (printed / len(loader)).hex(), (of_valid / len(valid_loader)).hex(),
                  schedule.get_last_lr()[0].hex())
    if rank == 0:
        print("weights", *[value.hex() for value in [*model.weight.flatten().tolist(), model.bias.item()]])
        sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    for fixed in (False, True):
        print("form", "fixed" if fixed else "printed", flush=True)
        mp.spawn(main, (3, fixed, 29650 + fixed), nprocs=3)
