"""The norm of gradients that are averaged already is summed over the ranks once more, and clips what is below the limit."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.5)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        ddp(torch.full((1, 1), 0.8)).sum().backward()
        norm = nn.utils.get_total_norm([p.grad for p in ddp.parameters()])
        if not FIXED:
            square = norm.square()
            dist.all_reduce(square)
            norm = square.sqrt()
        nn.utils.clip_grads_with_norm_(ddp.parameters(), 1.0, norm)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
