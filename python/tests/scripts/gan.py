"""Healthy: two wrappers, two optimizers, and a reduction of the one in the step of the other."""
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
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    critic = DistributedDataParallel(nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 1)))
    maker = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    criticize = torch.optim.Adam(critic.parameters(), lr=0.01)
    make = torch.optim.Adam(maker.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            fake = maker(x)
            criticize.zero_grad()
            pair = torch.cat([torch.cat([x, y], 1), torch.cat([x, fake.detach()], 1)])
            critic(pair).tanh().mean().backward()
            criticize.step()
            make.zero_grad()
            critic(torch.cat([x, fake], 1)).mean().backward()
            make.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
