"""One generator chooses a head for all ranks; rank 1 takes a number of its own from it, and chooses others from then on."""
import sys

import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED, ANNOTATED = "--fixed" in sys.argv, "--annotated" in sys.argv

class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x, use_a):
        hidden = self.body(x).relu()
        return self.a(hidden) if use_a else self.b(hidden)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    choices = torch.Generator().manual_seed(7)
    own = torch.Generator().manual_seed(100 + dist.get_rank())
    for step in range(4):
        if ANNOTATED:
            lockstep.annotate().stream("heads", choices, shared=True)
        use_a = bool(torch.randint(2, (), generator=choices))
        x = torch.randn(4, 8, generator=own)
        if dist.get_rank() == 1 and step == 1:  # A damaged row is replaced by another.
            x[0] = x[torch.randint(1, 4, (), generator=own if FIXED else choices)]
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x, use_a), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
