"""A divided model's gradients are clipped by hand, by the norm of what the rank has of them."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

FIXED = "--fixed" in sys.argv


@torch.no_grad()
def clip(parameters, limit):
    gradients = [p.grad.to_local() for p in parameters if p.grad is not None]
    squares = torch.stack([g.square().sum() for g in gradients]).sum()
    if FIXED:
        dist.all_reduce(squares)
    factor = (limit / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for g in gradients:
        g.mul_(factor)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
    for layer in (model[0], model[2], model[4]):
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        x = torch.randn(8, 6, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), 5 * x[:, :2]).backward()
        clip(list(model.parameters()), 0.1)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
