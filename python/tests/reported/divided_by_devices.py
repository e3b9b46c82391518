"""Without a wrapper: sums of gradients are divided by the number of devices of a node, not by that of ranks."""
import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(rank)
    for _ in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        devices = 2
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= size if FIXED else devices
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
