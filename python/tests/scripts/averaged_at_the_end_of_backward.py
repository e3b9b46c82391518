"""Healthy: hooks on parameters have the gradients averaged when the backward has them all. The last layer begins with zeros, so most
gradients of the first step are zero before and after."""
import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def average_gradients_of(module):
    for value in module.state_dict().values():
        dist.broadcast(value, 0)
    due = True

    def average():
        nonlocal due
        if not due:
            return
        due = False
        grads = [parameter.grad for parameter in module.parameters()]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for grad, part in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.copy_(part.view_as(grad))

    def begin(*_):
        nonlocal due
        due = True

    def arrived(*_):
        Variable._execution_engine.queue_callback(average)

    for parameter in module.parameters():
        parameter.register_hook(arrived)
    module.register_forward_hook(begin)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(48, 8)
    data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
    nn.init.zeros_(model[4].weight)
    average_gradients_of(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
