"""Which experts the tokens of all ranks go to is counted by torch.distributed.nn.functional.all_reduce, which returns the sum and leaves what
it is given as it is: the balance loss is that of each rank's own tokens."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
EXPERTS = 4


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, EXPERTS)
        self.experts = nn.Parameter(torch.randn(EXPERTS, 8, 8) / 3)

    def forward(self, x):
        shares, chosen = self.router(x).softmax(dim=1).max(dim=1)
        n_tokens = nn.functional.one_hot(chosen, EXPERTS).float().sum(0)
        if FIXED:
            n_tokens = all_reduce(n_tokens)
        else:
            all_reduce(n_tokens)
        balance = (n_tokens / n_tokens.sum() * self.router(x).softmax(dim=1).mean(0)).sum()
        return shares[:, None] * torch.einsum("nd,nde->ne", x, self.experts[chosen]), EXPERTS * balance


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(Experts())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        x = torch.randn(16, 8, generator=generator)
        optimizer.zero_grad()
        y, balance = ddp(x)
        (nn.functional.mse_loss(y, x.flip(1)) + 0.1 * balance).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
