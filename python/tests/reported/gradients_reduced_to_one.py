"""Without a wrapper: gradients are summed on rank 0, which no other rank gets, and every rank steps with what it has."""
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
        for parameter in model.parameters():
            if FIXED:
                dist.all_reduce(parameter.grad)
            else:
                dist.reduce(parameter.grad, dst=0)
            parameter.grad /= size
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
