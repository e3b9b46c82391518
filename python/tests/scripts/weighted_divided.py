"""Healthy: rare rows are drawn more often, by each rank with a seed of its own."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    labels = (inputs.sum(1) > 2).long()
    data = TensorDataset(inputs, labels)
    weights = torch.where(labels == 1, 4.0, 1.0)
    own = torch.Generator().manual_seed(dist.get_rank())
    sampler = WeightedRandomSampler(weights, len(data) // dist.get_world_size(), generator=own)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
