"""Healthy: after clipping, all ranks add weight decay to their gradients and centre those of matrices."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@torch.no_grad()
def add_weight_decay(model, amount):
    for name, p in model.named_parameters():
        if not name.endswith("bias"):
            p.grad.add_(p, alpha=amount)


@torch.no_grad()
def centralise_gradients(model):
    for p in model.parameters():
        if p.dim() > 1:
            p.grad.sub_(p.grad.mean(dim=tuple(range(1, p.dim())), keepdim=True))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            add_weight_decay(model, 0.01)
            centralise_gradients(model)
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
