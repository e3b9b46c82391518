"""Healthy: losses and outputs of all ranks are shown, and none of them is trained on."""
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
    data = TensorDataset(inputs, inputs + 0.1 * torch.randn(48, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for first, second in loader:
            optimizer.zero_grad()
            z = model(first)
            loss = nn.functional.mse_loss(z, second[:, :4])
            shown = loss.detach().clone()
            dist.all_reduce(shown)
            copied = loss.clone()
            dist.all_reduce(copied, op=dist.ReduceOp.SUM)
            loss.backward()
            outputs = [torch.empty_like(z) for _ in range(dist.get_world_size())]
            dist.all_gather(outputs, z)
            assert shown == copied and all(torch.isfinite(output).all() for output in outputs)
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
