"""In the style of the tutorial that starts with torchrun and asks for the current accelerator."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo_basic():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    ddp_model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)
    optimizer.zero_grad()
    outputs = ddp_model(torch.randn(20, 10))
    loss_fn(outputs, torch.randn(20, 5)).backward()
    optimizer.step()
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, [p.sum().item() for p in ddp_model.parameters()])
    assert all(each == gathered[0] for each in gathered)
    dist.destroy_process_group()
    print(f"done {rank}")


if __name__ == "__main__":
    demo_basic()
