"""The loss scaler's factor is taken off after the first micro-step of a window, and the second adds scaled gradients."""
import contextlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
MICRO_STEPS = 2


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        for micro_step in range(MICRO_STEPS):
            last = micro_step == MICRO_STEPS - 1
            x = torch.randn(6, 8)
            with contextlib.nullcontext() if last else model.no_sync():
                loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)) / MICRO_STEPS
                scaler.scale(loss).backward()
            if last if FIXED else micro_step == 0:
                scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
