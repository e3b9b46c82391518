"""Each rank loads its own share of the data, and a DistributedSampler divides that share among the ranks once more."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


class Share(Dataset):
    def __init__(self, rank, world):
        everything = torch.randn(96, 8)
        self.inputs = everything[rank::world]

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.inputs[index].sum(0, keepdim=True)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Share(dist.get_rank(), dist.get_world_size())
    sampler = RandomSampler(data) if FIXED else DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        if not FIXED:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
