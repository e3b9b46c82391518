"""Healthy: PyTorch's post-local SGD, with ranks that train alone after two steps and are averaged every fourth.

Each rank evaluates a moving average of its own parameters, which differ between two averages over the ranks.
"""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    group = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    state = PostLocalSGDState(process_group=None, subgroup=group, start_localSGD_iter=2)
    model.register_comm_hook(state, post_localSGD_hook)
    average = AveragedModel(model.module)
    averager = PeriodicModelAverager(period=4, warmup_steps=2)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            average.update_parameters(model.module)
            averager.average_parameters(model.parameters())
        average.eval()
        with torch.no_grad():
            average(inputs[:4])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
