"""A loop that averages by itself steps on rank 0 only, as if that were logging: the models of the others stay as they were."""
import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv

def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


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
        if FIXED or dist.get_rank() == 0:
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
