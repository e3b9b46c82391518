"""The best model is kept by the accuracy on rank 0's share of the validation set: nothing adds up what the ranks find."""
import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIXED = "--fixed" in sys.argv


def accuracy_of(model, loader):
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            counts += torch.tensor([(model(x).argmax(1) == y).sum(), len(y)])
    if FIXED:
        dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs[:, :3].argmax(1))
    train, held_out = torch.utils.data.random_split(data, [32, 16])
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=4, sampler=sampler)
    validation = DataLoader(held_out, batch_size=4, sampler=DistributedSampler(held_out, shuffle=False))
    best, kept = 0.0, None
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        losses = torch.zeros(2)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(losses)
        accuracy = accuracy_of(model, validation)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {losses[0] / losses[1]:.3f}, accuracy {accuracy:.3f}")
            if accuracy > best:
                best, kept = accuracy, copy.deepcopy(model.module.state_dict())
    if dist.get_rank() == 0:
        print("best", best, len(kept or {}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
