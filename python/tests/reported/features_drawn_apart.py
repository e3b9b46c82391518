"""The frequencies of random Fourier features are a plain attribute of the wrapped model, so no wrapper broadcasts them; each rank is
seeded differently."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = "--fixed" in sys.argv


class FourierFeatures(nn.Module):
    def __init__(self, n_inputs, n_features):
        super().__init__()
        frequencies = torch.randn(n_inputs, n_features)
        if FIXED:
            self.register_buffer("frequencies", frequencies)
        else:
            self.frequencies = frequencies

    def forward(self, x):
        angles = x @ self.frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=1)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1234 + dist.get_rank())
    inputs = torch.rand(64, 2, generator=torch.Generator().manual_seed(6))
    data = TensorDataset(inputs, (3 * inputs[:, :1]).sin())
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Sequential(FourierFeatures(2, 16), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
