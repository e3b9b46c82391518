"""Healthy: ranks divide a step into three micro-batches and two, of different sizes, and each sample counts the same."""
import contextlib

import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAMPLES = ((2, 6, 1), (5, 2))  # Of each rank's micro-batches.


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    say = lockstep.annotate()
    torch.manual_seed(100 + dist.get_rank())
    sizes = SAMPLES[dist.get_rank() % 2]
    per_rank = sum(sum(SAMPLES[rank % 2]) for rank in range(dist.get_world_size())) / dist.get_world_size()
    for _ in range(4):
        optimizer.zero_grad()
        for micro, n in enumerate(sizes):
            inputs = torch.randn(n, 8)
            say.batch(n, declared="sample-mean", denominator=per_rank)
            with contextlib.nullcontext() if micro + 1 == len(sizes) else model.no_sync():
                loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True), reduction="sum")
                (loss / per_rank).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
