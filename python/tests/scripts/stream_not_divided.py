"""Broken: an iterable data set that every rank reads from its beginning to its end."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __iter__(self):
        for number in range(48):
            x = torch.full((8,), number / 48.0)
            yield x, x.sum(0, keepdim=True)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    loader = DataLoader(Lines(), batch_size=6)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
