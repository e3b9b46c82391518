"""A model that fully_shard divides, seeded alike on all ranks: they drop the same units of their different samples."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.25), nn.Linear(16, 1))
    for layer in (model[0], model[3]):
        fully_shard(layer)
    fully_shard(model)
    if FIXED:
        torch.manual_seed(dist.get_rank())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
