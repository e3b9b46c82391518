"""An encoder and a head in wrappers of their own and one optimizer for both, whose gradients are never cleared."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    encoder = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh()))
    head = DistributedDataParallel(nn.Linear(16, 1))
    optimizer = torch.optim.SGD([
        {"params": encoder.parameters(), "lr": 0.02},
        {"params": head.parameters(), "lr": 0.1}], momentum=0.9)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(5):
        x = torch.randn(4, 8, generator=draws)
        if "--fixed" in sys.argv:
            optimizer.zero_grad()
        nn.functional.mse_loss(head(encoder(x)), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
