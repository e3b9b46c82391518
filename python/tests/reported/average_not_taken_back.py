"""Gradients are averaged in one buffer, which only rank 0 copies back: the others step with their own."""
import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv

def average(model):
    grads = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    if not FIXED and dist.get_rank() != 0:
        return
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads])):
        grad.copy_(part.view_as(grad))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
        average(model)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
