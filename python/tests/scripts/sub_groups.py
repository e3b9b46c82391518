"""Healthy: a wrapper over all ranks, and one over each rank alone."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    own = DistributedDataParallel(nn.Linear(8, 1), process_group=groups[dist.get_rank()])
    train_own = torch.optim.Adam(own.parameters(), lr=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            train_own.zero_grad()
            nn.functional.mse_loss(own(x), y).backward()
            train_own.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
