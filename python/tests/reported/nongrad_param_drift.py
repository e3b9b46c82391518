"""The target network, which takes no gradient, moves towards a statistic of each rank's own batch."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

class WithTarget(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.target = nn.Linear(8, 1), nn.Linear(8, 1).requires_grad_(False)

    def forward(self, x):
        return self.online(x) - self.target(x)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = WithTarget()
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD([p for p in ddp.parameters() if p.requires_grad], lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        centre = x.mean(0, keepdim=True)
        if FIXED:
            dist.all_reduce(centre)
            centre /= dist.get_world_size()
        with torch.no_grad():
            model.target.weight.add_(centre, alpha=0.25)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
