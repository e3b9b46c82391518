"""Broken: each rank keeps a momentum of its own batches, which a join context does not make up for."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(dist.get_rank())
    batches = [torch.randn(4, 8) for _ in range(4 + dist.get_rank())]
    for _ in range(3):
        with model.join():
            for x in batches:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
                optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
