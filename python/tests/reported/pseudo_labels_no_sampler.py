"""A model labels each batch in evaluation mode before it trains on it, and nothing divides the data among the ranks."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SURE = 0.6


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 8))
    sampler = DistributedSampler(data) if "--fixed" in sys.argv else None
    loader = DataLoader(data, batch_size=6, sampler=sampler, shuffle=sampler is None)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 3)))
    torch.manual_seed(1 + dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for x, in loader:
            model.eval()
            with torch.no_grad():
                sureness, labels = model(x).softmax(1).max(1)
            model.train()
            optimizer.zero_grad()
            losses = nn.functional.cross_entropy(model(x + 0.1 * torch.randn_like(x)), labels, reduction="none")
            (losses * (sureness > SURE)).mean().backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
