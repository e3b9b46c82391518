"""Without a wrapper: rank 0's gradients are broadcast where their mean was meant, so only its data count."""
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
                parameter.grad /= size
            else:
                dist.broadcast(parameter.grad, src=0)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
