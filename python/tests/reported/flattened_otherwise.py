"""Without a wrapper: gradients are averaged in one buffer, in which one rank puts them in another order."""
import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv


def average(gradients):
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(part.view_as(gradient))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = {"in": nn.Linear(8, 16), "out": nn.Linear(16, 1)}
    model = nn.Sequential(layers["in"], nn.Tanh(), layers["out"])
    names = list(layers)
    if dist.get_rank() == 1 and not FIXED:
        names.reverse()  # As an order that comes from a set of names, or from a folder's listing.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        average([parameter.grad for name in names for parameter in layers[name].parameters()])
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
