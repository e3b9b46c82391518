"""Two models, one after the other. Only the second training has bugs: its sampler's epoch is never set,
and before its step 5 rank 1 writes into a parameter."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    x = torch.randn(48, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    for attempt in range(2):
        sampler = DistributedSampler(data)
        loader = DataLoader(data, batch_size=6, sampler=sampler)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        step = 0
        for epoch in range(3):
            if attempt == 0:
                sampler.set_epoch(epoch)
            for x, y in loader:
                if attempt == 1 and step == 5 and dist.get_rank() == 1:
                    with torch.no_grad():
                        model.module[0].bias += 0.01
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
                step += 1


if __name__ == "__main__":
    main()
