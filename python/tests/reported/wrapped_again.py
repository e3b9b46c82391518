"""A function wraps whatever it is given, also what its caller has wrapped: each gradient is reduced twice."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def train(model, draws):
    if not (FIXED and isinstance(model, DistributedDataParallel)):
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    train(DistributedDataParallel(model), torch.Generator().manual_seed(dist.get_rank()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
