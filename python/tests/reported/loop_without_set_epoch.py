"""A loop that averages by itself never calls set_epoch, so each epoch has the order of the first."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs = torch.randn(24, 8)
    data = TensorDataset(inputs, inputs[:, :3].argmax(1))
    sampler = DistributedSampler(data)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        if FIXED:
            sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
