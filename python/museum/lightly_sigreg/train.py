"""Self-supervised training whose loss gathers its statistics from all ranks."""
import torch
import torch.distributed as dist
from lightly.loss.lejepa_loss import SIGReg
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    criterion = SIGReg(gather_distributed=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(11 + dist.get_rank())  # Each rank has data of its own.
    for _ in range(4):
        optimizer.zero_grad()
        criterion(model(torch.randn(12, 8))).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
