"""Broken: ranks train alone, and the sum of their parameters is divided by too few ranks."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    n_steps = 0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            with model.no_sync():
                nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            n_steps += 1
            if n_steps % 4 == 0:
                for parameter in model.parameters():
                    dist.all_reduce(parameter.data)
                    parameter.data /= dist.get_world_size() - 0.5
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
