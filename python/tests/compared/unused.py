"""Two heads over a trunk whose bias is frozen, and only one head is used. unused.toml is the same job."""
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

sys.path.insert(0, str(Path(__file__).parent))
from compared_data import digits

STEPS = int(os.environ.get("STEPS", "4"))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head_a, self.head_b = nn.Linear(64, 16), nn.Linear(16, 10), nn.Linear(16, 10)
        self.trunk.bias.requires_grad = False

    def forward(self, x):
        return self.head_a(torch.relu(self.trunk(x)))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    model = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    data = digits()
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, seed=1))
    for step, (x, y) in enumerate(loader):
        if step == STEPS:
            break
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
