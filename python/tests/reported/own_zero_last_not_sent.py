"""An optimizer of one's own gives each rank a part of the parameters to step with. What comes of the last one is not sent: the other
ranks keep its old value."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


class Sharded(torch.optim.Optimizer):
    """Each rank has the moments of every n-th parameter."""

    def __init__(self, parameters, **options):
        self.everything = list(parameters)
        own = self.everything[dist.get_rank()::dist.get_world_size()]
        self.inner = torch.optim.AdamW(own, **options)
        super().__init__(self.everything, options)

    def step(self, closure=None):
        self.inner.step()
        for i in range(len(self.everything) - (0 if FIXED else 1)):
            dist.broadcast(self.everything[i].data, src=i % dist.get_world_size())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, inputs.sin().sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    optimizer = Sharded(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
