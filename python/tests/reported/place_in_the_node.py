"""On nodes of two GPUs each, every rank takes its part of the rows by its place in the node: all nodes train on the same."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
GPUS_PER_NODE = 2


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    local_rank = rank % GPUS_PER_NODE
    torch.manual_seed(0)
    tokens = torch.randint(0, 50, (64, 12))
    model = nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(96, 50))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    mine = tokens.chunk(world)[rank] if FIXED else tokens.chunk(GPUS_PER_NODE)[local_rank]
    for epoch in range(2):
        for batch in mine.split(8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(batch), batch[:, 0]).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
