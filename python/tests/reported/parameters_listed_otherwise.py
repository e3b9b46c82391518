"""Rank 1 lists the parameters in another order, as from a set, which does no harm; its learning rate does."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    decayed, plain, rate = [], [], 0.01
    for name, parameter in model.named_parameters():
        (decayed if name.endswith("weight") else plain).append(parameter)
    if dist.get_rank() == 1:
        decayed.reverse()
        plain.reverse()
        rate = 0.01 if FIXED else 0.02
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": plain, "weight_decay": 0.0}], lr=rate)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(4):
        x = torch.randn(6, 8)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
