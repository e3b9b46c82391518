"""Loaders with persistent workers, a generator, a worker_init_fn and their own collation."""
import random

import numpy
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Noisy(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return index, torch.full((3,), float(index)), numpy.random.rand()


def seed_worker(worker_id):
    seed = torch.initial_seed() % 2**32
    numpy.random.seed(seed)
    random.seed(seed)


dist.init_process_group("gloo")
generator = torch.Generator()
generator.manual_seed(0)
data = Noisy()
sampler = DistributedSampler(data, shuffle=True, seed=3)
loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, worker_init_fn=seed_worker, generator=generator,
                    persistent_workers=True, prefetch_factor=2)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.RMSprop(model.parameters())
for epoch in range(2):
    sampler.set_epoch(epoch)
    seen = []
    for indices, x, noise in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        seen += indices.tolist()
    everything = [None] * dist.get_world_size()
    dist.all_gather_object(everything, seen)
    assert sorted(sum(everything, [])) == list(range(24))
print(f"done {dist.get_rank()}")
