"""Fine-tuning: the head is replaced after the optimizer was made, which goes on with the old one. The new one is never trained."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
    if FIXED:
        model[2] = nn.Linear(16, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if not FIXED:
        model[2] = nn.Linear(16, 3)
    ddp = DistributedDataParallel(model)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x), x[:, :3].argmax(1)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
