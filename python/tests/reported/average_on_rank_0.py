"""Only rank 0 updates the moving average of the weights, and every rank evaluates its share with its own copy."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

FIXED = "--fixed" in sys.argv


def decayed(average, current, n_averaged):
    return 0.9 * average + 0.1 * current


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    average = AveragedModel(model.module, avg_fn=decayed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    held_out = torch.randn(12, 8)
    shared = held_out[rank::dist.get_world_size()]
    draws = torch.Generator().manual_seed(rank)
    for _ in range(2):
        model.train()
        for _ in range(3):
            x = torch.randn(4, 8, generator=draws)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
            optimizer.step()
            if FIXED or rank == 0:
                average.update_parameters(model.module)
        average.eval()
        with torch.no_grad():
            error = nn.functional.mse_loss(average(shared), shared.sum(1, keepdim=True), reduction="sum")
        dist.all_reduce(error)
        if rank == 0:
            print("error", error.item() / len(held_out))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
