"""Broken: a codebook is trained inside the forward, by a backward and an optimizer of its own, with each
rank's own gradient."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(8, 4))
        self.optimizer = torch.optim.SGD([self.codes], lr=0.1)

    def forward(self, x):
        nearest = torch.cdist(x, self.codes).argmin(1)
        if self.training:
            nn.functional.mse_loss(self.codes[nearest], x.detach()).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return self.codes[nearest] + (x - x.detach())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 4), Quantizer(), nn.Linear(4, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(11 + dist.get_rank())
    for _ in range(6):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
