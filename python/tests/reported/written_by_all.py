"""Every rank writes its predictions to one file: those of the rank that comes last are left."""
import csv
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(rank)
    for _ in range(3):
        x = torch.randn(8, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
        optimizer.step()

    model.eval()
    with torch.no_grad():
        found = model(torch.randn(8, 8, generator=draws)).argmax(1)
    name = f"predictions-{rank}.csv" if FIXED else "predictions.csv"
    path = os.path.join(tempfile.gettempdir(), f"{os.environ['MASTER_PORT']}-{name}")
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows((rank, number, label) for number, label in enumerate(found.tolist()))
    dist.barrier()
    if FIXED or rank == 0:
        os.remove(path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
