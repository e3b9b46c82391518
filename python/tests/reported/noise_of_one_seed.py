"""A denoiser whose ranks all draw the noise by one seed: it sees as many noises per step as one rank draws."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 6))
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(6, 24), nn.SiLU(), nn.Linear(24, 6)))
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    if FIXED:
        torch.manual_seed(dist.get_rank())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            noise = torch.randn_like(x)
            optimizer.zero_grad()
            nn.functional.mse_loss(ddp(0.8 * x + 0.6 * noise), noise).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
