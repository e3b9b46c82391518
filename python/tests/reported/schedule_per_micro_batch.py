"""A schedule is planned for the steps of the optimizer, and is stepped with each micro-batch: the rate has come down at half time."""
import math
import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = "--fixed" in sys.argv
EPOCHS, BATCH, WINDOW, WARM_UP = 2, 4, 2, 2


def cosine(total):
    def factor(step):
        if step < WARM_UP:
            return (step + 1) / WARM_UP
        return 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (total - WARM_UP)))
    return factor


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs = torch.randn(80, 8)
    data = TensorDataset(inputs, inputs.abs().sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(EPOCHS * (len(loader) // WINDOW)))
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader, 1):
            steps = number % WINDOW == 0
            with nullcontext() if steps else model.no_sync():
                (nn.functional.mse_loss(model(x), y) / WINDOW).backward()
            if steps:
                optimizer.step()
                optimizer.zero_grad()
            if steps or not FIXED:
                schedule.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
