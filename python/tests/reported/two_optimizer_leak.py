"""The generator's loss goes through the discriminator and leaves gradients there, which nothing clears."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    generator = DistributedDataParallel(nn.Linear(4, 1))
    discriminator = DistributedDataParallel(nn.Linear(1, 1))
    optimizer_g = torch.optim.SGD(generator.parameters(), lr=0.1)
    optimizer_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    ones, zeros = torch.ones(4, 1), torch.zeros(4, 1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        noise, real = torch.randn(4, 4, generator=draws), torch.randn(4, 1, generator=draws)
        fake = generator(noise)
        if FIXED:
            optimizer_d.zero_grad()
        nn.functional.mse_loss(discriminator(torch.cat([real, fake.detach()])), torch.cat([ones, zeros])).backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        nn.functional.mse_loss(discriminator(fake), ones).backward()
        optimizer_g.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
