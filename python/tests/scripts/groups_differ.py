"""Broken: rank 1 sorts its parameters into groups by another list of names than rank 0 does."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    no_decay = ("0.bias", "2.bias") if dist.get_rank() == 0 else ("0.bias", "2.weight")
    groups = {False: [], True: []}
    for name, parameter in model.module.named_parameters():
        groups[name in no_decay].append(parameter)
    optimizer = torch.optim.AdamW([{"params": groups[False], "weight_decay": 0.1},
                                   {"params": groups[True], "weight_decay": 0.0}], lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
