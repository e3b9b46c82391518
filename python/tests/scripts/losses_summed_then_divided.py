"""Broken: the loss is the sum of the ranks' losses divided by their number, and the gradient that of the own one, divided by it."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs + 0.1 * torch.randn(48, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for first, second in loader:
            optimizer.zero_grad()
            loss = AllReduce.apply((model(first) - 1.0).square().mean())
            (loss / dist.get_world_size()).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
