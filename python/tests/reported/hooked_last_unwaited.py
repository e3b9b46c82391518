"""A wrapper of one's own reduces each gradient as soon as it is complete, and waits for all of these calls but the last."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


class Replicated(nn.Module):
    """What DistributedDataParallel does, with a collective per parameter."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.works = []
        for parameter in module.parameters():
            dist.broadcast(parameter.data, src=0)
            parameter.register_post_accumulate_grad_hook(self.reduce)

    def reduce(self, parameter):
        parameter.grad /= dist.get_world_size()
        self.works.append(dist.all_reduce(parameter.grad, async_op=True))

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for i in range(len(self.works) if FIXED else len(self.works) - 1):
            self.works[i].wait()
        self.works.clear()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    inputs = torch.randn(96, 8, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(inputs, inputs.sin().sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    model = Replicated(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            model.finish()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
