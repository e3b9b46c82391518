"""A generator makes fakes without gradients before the discriminator gets each batch; the sampler's epoch is never set."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

N_NOISE = 4


def network(n_in, n_out):
    return DistributedDataParallel(nn.Sequential(nn.Linear(n_in, 16), nn.LeakyReLU(0.2), nn.Linear(16, n_out)))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    angles = 6.283 * torch.rand(48)
    data = TensorDataset(torch.stack([angles.cos(), angles.sin()], 1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    generator, discriminator = network(N_NOISE, 2), network(2, 1)
    torch.manual_seed(1 + dist.get_rank())
    steps_generator = torch.optim.Adam(generator.parameters(), lr=2e-3)
    steps_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-3)
    loss = nn.BCEWithLogitsLoss()
    for epoch in range(3):
        if "--fixed" in sys.argv:
            sampler.set_epoch(epoch)
        for real, in loader:
            real_or_not = torch.arange(2.0).flip(0).repeat_interleave(len(real))[:, None]
            with torch.no_grad():
                fake = generator(torch.randn(len(real), N_NOISE))
            steps_discriminator.zero_grad()
            loss(discriminator(torch.cat([real, fake])), real_or_not).backward()
            steps_discriminator.step()

            steps_generator.zero_grad()
            discriminator.requires_grad_(False)
            fake = generator(torch.randn(len(real), N_NOISE))
            loss(discriminator.module(fake), torch.ones(len(real), 1)).backward()
            discriminator.requires_grad_(True)
            steps_generator.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
