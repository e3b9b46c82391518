"""A loop averages gradients by itself. All ranks evaluate, and add up what they find, with the running statistics of their own batches."""
import sys

import torch
import torch.distributed as dist
from torch import nn

FIXED = "--fixed" in sys.argv


def average(tensors):
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor /= dist.get_world_size()


def evaluate(model, rows):
    if FIXED:
        average(buffer for buffer in model.buffers() if buffer.is_floating_point())
    model.eval()
    with torch.no_grad():
        loss = nn.functional.mse_loss(model(rows), rows.sum(1, keepdim=True))
    dist.all_reduce(loss)
    model.train()
    return loss.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1))
    held_out = torch.randn(16, 8)[dist.get_rank()::dist.get_world_size()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for step in range(6):
        x = torch.randn(8, 8, generator=draws)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        average([parameter.grad for parameter in model.parameters()])
        optimizer.step()
        if step % 3 == 2:
            loss = evaluate(model, held_out)
            if dist.get_rank() == 0:
                print(f"after {step + 1} steps: {loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
