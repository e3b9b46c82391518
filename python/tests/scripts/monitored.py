"""Healthy: a barrier that names who is missing, before training and at its end."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    dist.monitored_barrier()
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        x = torch.randn(4, 8)
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.monitored_barrier(wait_all_ranks=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
