"""Healthy: rank 0 gets the mean gradients, and all take over its parameters, in one piece."""
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
            for parameter in model.parameters():
                parameter.grad /= size
                dist.reduce(parameter.grad, 0)
            optimizer.step()
            whole = nn.utils.parameters_to_vector(model.parameters())
            dist.broadcast(whole, 0)
            nn.utils.vector_to_parameters(whole, model.parameters())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
