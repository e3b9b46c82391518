"""Broken: the ranks share out batches that each has shuffled with a seed of its own."""
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


class ByLength:
    """Batches of samples of like length, shared out among the ranks."""

    def __init__(self, lengths, size):
        self.lengths, self.size, self.epoch = lengths, size, 0

    def __iter__(self):
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])
        batches = [order[i:i + self.size] for i in range(0, len(order), self.size)]
        random.Random(10 * dist.get_rank() + self.epoch).shuffle(batches)
        return iter(batches[dist.get_rank()::dist.get_world_size()])

    def __len__(self):
        return len(self.lengths) // self.size // dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = ByLength([i * 7 % 96 for i in range(96)], 4)
    loader = DataLoader(data, batch_sampler=batches)
    for batches.epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
