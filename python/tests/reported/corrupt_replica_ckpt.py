"""Rank 1 takes its momentum back from the copy that rank 2 keeps, in which a bit has changed."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def shifted(values, by):
    """Moves them one rank up, or one rank down."""
    world, rank = dist.get_world_size(), dist.get_rank()
    arrived = torch.empty_like(values)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, values, (rank + by) % world),
                                        dist.P2POp(dist.irecv, arrived, (rank - by) % world)]):
        work.wait()
    return arrived


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(8, 1, bias=False)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.5)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for step in range(4):
        x = torch.randn(4, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if step != 1:
            continue
        momentum = optimizer.state[model.weight]["momentum_buffer"]
        kept = shifted(momentum, 1)
        if dist.get_rank() == 2:  # Memory that goes bad.
            kept.view(torch.int32)[0, 2] ^= 1 << 22
        restored = shifted(kept, -1)
        if FIXED:
            damaged = torch.tensor([float(not torch.equal(restored, momentum))])
            dist.all_reduce(damaged)
            restored = momentum.clone() if damaged.item() else restored
        elif dist.get_rank() != 1:
            restored = momentum.clone()
        momentum.copy_(restored)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
