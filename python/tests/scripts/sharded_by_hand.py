"""Healthy: all gradients are averaged, and each rank updates a share of the parameters and hands them out."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    ranks, rank = dist.get_world_size(), dist.get_rank()
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters[rank::ranks], lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            model.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            for parameter in parameters:
                dist.all_reduce(parameter.grad)
                parameter.grad /= ranks
            optimizer.step()
            for i, parameter in enumerate(parameters):
                dist.broadcast(parameter.data, i % ranks)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
