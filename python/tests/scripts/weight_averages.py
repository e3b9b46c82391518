"""Healthy: two moving averages on all ranks, evaluated on each rank's share, and a third of rank 0's own."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, update_bn


def slow(average, current, n_averaged):
    return 0.9 * average + 0.1 * current


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1)))
    own = AveragedModel(model.module) if rank == 0 else None  # First: it is not the others' first.
    averages = [AveragedModel(model.module), AveragedModel(model.module, avg_fn=slow)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(rank)
    for _ in range(3):
        model.train()
        for _ in range(3):
            x = torch.randn(4, 8, generator=draws)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
            optimizer.step()
            for average in averages:
                average.update_parameters(model.module)
        shared = [torch.randn(4, 8, generator=draws) for _ in range(2)]
        for average in averages:
            update_bn(shared, average)  # From this rank's share, so buffers differ.
            average.eval()
            with torch.no_grad():
                average(shared[0])
        if own is not None:
            own.update_parameters(model.module)
            own.eval()
            with torch.no_grad():
                own(shared[0])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
