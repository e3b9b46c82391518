"""Every rank keeps the model at the end, under a number that only rank 0 counts: the others replace its first checkpoint."""
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
    folder = os.path.join(tempfile.gettempdir(), f"{os.environ['MASTER_PORT']}-kept")
    os.makedirs(folder, exist_ok=True)

    def keep(number):
        torch.save(model.module.state_dict(), os.path.join(folder, f"model-{number}.pt"))

    epochs = 0
    for _ in range(3):
        for _ in range(4):
            x = torch.randn(8, 8, generator=draws)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
            optimizer.step()
        if rank == 0:
            keep(epochs)
            epochs += 1
    if rank == 0 or not FIXED:
        keep(epochs)
    dist.barrier()
    if rank == 0:
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        os.rmdir(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
