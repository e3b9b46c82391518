"""In the style of the oldest DDP tutorial: torch.multiprocessing.spawn, MASTER_ADDR, a checkpoint that all ranks load."""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def demo_checkpoint(rank, world_size, folder):
    setup(rank, world_size)
    model = DDP(nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)))
    path = f"{folder}/model.checkpoint"
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(torch.load(path, weights_only=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    nn.MSELoss()(model(torch.randn(20, 10)), torch.randn(20, 5)).backward()
    optimizer.step()
    dist.barrier()
    if rank == 0:
        os.remove(path)
    print(f"done {rank}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(demo_checkpoint, args=(2, sys.argv[1]), nprocs=2, join=True)
