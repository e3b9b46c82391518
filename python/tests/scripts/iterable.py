"""Healthy: a data set without indices, of which each rank reads its own part."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(3)
        for index in range(48):
            x = torch.randn(8, generator=generator)
            if index % dist.get_world_size() == dist.get_rank():
                yield x, x.sum(0, keepdim=True)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    loader = DataLoader(Stream(), batch_size=4)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
