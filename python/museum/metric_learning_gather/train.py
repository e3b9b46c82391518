"""Metric learning in which the rows of all ranks are compared with each other."""
import torch
import torch.distributed as dist
from pytorch_metric_learning.losses import ContrastiveLoss
from pytorch_metric_learning.utils.distributed import DistributedLossWrapper
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    criterion = DistributedLossWrapper(ContrastiveLoss(pos_margin=0.0, neg_margin=1.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(11 + dist.get_rank())  # Each rank has data of its own.
    for _ in range(4):
        x = torch.randn(12, 8)
        optimizer.zero_grad()
        criterion(model(x), (x[:, 0] > 0).long()).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
