"""The sampler is given the local rank: two nodes of two ranks each read the same half."""
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
    local_rank = dist.get_rank() % 2  # As a launcher of two nodes with two ranks each says.
    sampler = torch.utils.data.distributed.DistributedSampler(
        data, num_replicas=dist.get_world_size(), rank=dist.get_rank() if FIXED else local_rank)
    loader = torch.utils.data.DataLoader(data, batch_size=2, sampler=sampler)
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
