"""Hard examples are drawn first, in one order seeded alike on all ranks, by weights that each rank learns from its own samples alone."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Sampler

FIXED = "--fixed" in sys.argv


class Rows(Dataset):
    def __init__(self):
        self.inputs = torch.randn(96, 8, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.inputs[index].sum(0, keepdim=True), index


class HardFirst(Sampler):
    """Two thirds of the rows, those of large weights more likely; each rank has its share of them."""

    def __init__(self, weights, rank, world):
        self.weights, self.rank, self.world, self.epoch = weights, rank, world, 0

    def __len__(self):
        return len(self.weights) * 2 // 3 // self.world

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        order = torch.multinomial(self.weights, len(self.weights), generator=generator)
        return iter(order[self.rank::self.world].tolist()[:len(self)])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data, weights = Rows(), torch.ones(96)
    sampler = HardFirst(weights, rank, world)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        sampler.epoch = epoch
        errors = torch.zeros(len(data))
        for x, y, index in loader:
            error = (model(x) - y).square().flatten()
            optimizer.zero_grad()
            error.mean().backward()
            optimizer.step()
            errors[index] = error.detach()
        if FIXED:
            dist.all_reduce(errors)
        weights.copy_(torch.where(errors > 0, errors, weights))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
