"""Healthy: the program averages the gradients of two batches on two ranks, clips them and steps."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    held_out = torch.randn(8, 8)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch, (x, y) in enumerate(loader):
            nn.functional.mse_loss(model(x), y).backward()
            if batch % 2 == 0:
                continue
            for parameter in optimizer.param_groups[0]["params"]:
                dist.all_reduce(parameter.grad)
                parameter.grad /= 2 * dist.get_world_size()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
        if dist.get_rank() == 0:
            model.eval()
            with torch.no_grad():
                print(f"epoch {epoch}: {nn.functional.mse_loss(model(held_out), held_out.sum(1, keepdim=True)):.4f}")
            model.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
