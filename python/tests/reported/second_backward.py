"""Two losses of one forward go back one after the other: DDP reduces what the first backward leaves."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(rank)
    for _ in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        y = model(x)
        loss, penalty = nn.functional.mse_loss(y, x.sum(1, keepdim=True)), 0.1 * y.abs().mean()
        if FIXED:
            (loss + penalty).backward()
        else:
            loss.backward(retain_graph=True)
            penalty.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
