"""Self-supervised training whose loss correlates two views over the batches of all ranks."""
import torch
import torch.distributed as dist
from lightly.loss.barlow_twins_loss import BarlowTwinsLoss
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    criterion = BarlowTwinsLoss(gather_distributed=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(11 + dist.get_rank())  # Each rank has data of its own.
    for _ in range(4):
        x = torch.randn(12, 8)
        views = model(torch.cat([x + 0.1 * torch.randn(12, 8), x + 0.1 * torch.randn(12, 8)]))
        optimizer.zero_grad()
        criterion(*views.chunk(2)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
