"""The sampler's seed is each rank's own, so the ranks divide different orders."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(16, 8))
    sampler = torch.utils.data.distributed.DistributedSampler(data, seed=0 if FIXED else dist.get_rank())
    loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)
    ddp = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
