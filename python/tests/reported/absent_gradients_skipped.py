"""Without a wrapper: each rank sums the gradients that it has, one by one, so those of different heads meet in one sum."""
import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv


class TwoTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 8)
        self.heads = nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])

    def forward(self, x, task):
        return self.heads[task](torch.tanh(self.trunk(x)))


def average(parameters):
    for parameter in parameters:
        if parameter.grad is None:
            if not FIXED:
                continue
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = TwoTasks()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for step in range(6):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x, (dist.get_rank() + step) % 2), x.sum(1, keepdim=True)).backward()
        average(model.parameters())
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
