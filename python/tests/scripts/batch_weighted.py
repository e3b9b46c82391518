"""Healthy: the classes of a loss are weighed anew for each batch, by how often they come in it."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, (inputs.sum(1) > 1.0).long())
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=16, sampler=sampler):
            weights = len(y) / (1.0 + torch.bincount(y, minlength=2))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y, weight=weights).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
