"""Targets come from a frozen random projection beside the wrapped model; ranks have seeds of their own before both are made."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FIXED = "--fixed" in sys.argv


class Quantizer(nn.Module):
    def __init__(self, n_codes=10):
        super().__init__()
        self.register_buffer("projection", torch.randn(8, 4))
        self.register_buffer("codes", nn.functional.normalize(torch.randn(n_codes, 4), dim=1))

    @torch.no_grad()
    def forward(self, x):
        return torch.cdist(nn.functional.normalize(x @ self.projection, dim=1), self.codes).argmin(1)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(3407 + dist.get_rank())  # Masks are to differ.
    data = TensorDataset(torch.randn(64, 8, generator=torch.Generator().manual_seed(6)))
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10)))
    quantizer = Quantizer()
    if FIXED:
        for buffer in quantizer.buffers():
            dist.broadcast(buffer, src=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, in DataLoader(data, batch_size=8, sampler=sampler):
            masked = x * (torch.rand(len(x), 1) > 0.3)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(masked), quantizer(x)).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
