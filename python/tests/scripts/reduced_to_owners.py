"""Healthy: each parameter has a rank that gets its mean gradient; all ranks step, and take over from it what it has come to."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            owned = [(index % size, parameter) for index, parameter in enumerate(model.parameters())]
            for owner, parameter in owned:
                parameter.grad /= size
                dist.reduce(parameter.grad, owner)
            optimizer.step()
            for owner, parameter in owned:
                dist.broadcast(parameter.data, owner)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
