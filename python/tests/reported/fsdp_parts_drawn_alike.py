"""A model is divided before it has values; each rank draws its part of them by a generator with the seed of the run."""
import math
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

FIXED = "--fixed" in sys.argv


def initialise(model, seed):
    draws = torch.Generator().manual_seed(seed + (dist.get_rank() if FIXED else 0))
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.to_local().normal_(0.0, 1 / math.sqrt(layer.in_features), generator=draws)
                layer.bias.to_local().zero_()


def main():
    dist.init_process_group("gloo")
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    for layer in (model[0], model[2], model[4]):
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device="cpu")
    initialise(model, seed=42)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        x = torch.randn(8, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), (x[:, 0] > x[:, 1]).long()).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
