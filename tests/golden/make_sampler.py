"""Writes sampler.txt: what torch's DistributedSampler, RandomSampler and random_split yield."""

import os
import random

import torch
from torch.utils.data import RandomSampler, Subset, random_split
from torch.utils.data.distributed import DistributedSampler

from golden_format import listed, write

HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = [0, 1, 42, -1, -7, 2**31, 2**32 - 1, 2**32, 2**32 + 42, 2**40 + 3, 2**62, -(2**40) - 5,
         2**63 - 1, -(2**63)]


class Rows(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index


def distributed(size, replicas, rank, epoch, seed, shuffle, drop_last):
    sampler = DistributedSampler(Rows(size), num_replicas=replicas, rank=rank, shuffle=shuffle,
                                 seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    indices = list(sampler)
    assert len(indices) == len(sampler)
    return (f"distributed {size} {replicas} {rank} {epoch} {seed} {int(shuffle)} {int(drop_last)}"
            f" : {listed(indices)}")


def edge_cases():
    for size in (0, 1, 2, 3, 16):
        for replicas in (1, 2, 3, 5, 7):
            for drop_last in (False, True):
                for shuffle in (False, True):
                    yield (size, replicas, replicas - 1, 0, 0, shuffle, drop_last)
    for seed in SEEDS:
        for epoch in (0, 1, 3):
            yield (11, 3, epoch % 3, epoch, seed, True, False)
    for rank in range(2):  # The smallest example people print: 16 values, 2 ranks.
        yield (16, 2, rank, 0, 0, True, False)
    for rank in range(4):  # Every rank of one epoch.
        yield (10, 4, rank, 1, 0, True, False)
    yield (3, 17, 16, 2, 5, True, False)  # The whole order is repeated several times as padding.
    yield (100000, 7, 3, 5, 123, True, False)
    yield (250007, 64, 63, 2, 9, True, True)


def random_cases(draw, count):
    for _ in range(count):
        large = draw.random() < 0.2
        size = draw.randint(100, 5000) if large else draw.randint(0, 60)
        replicas = draw.choice([1, 2, 3, 4, 5, 8, 13, 64]) if large else draw.randint(1, 12)
        seed = draw.choice([draw.randint(-5, 100), draw.randint(-(2**63) + 10, 2**62)])
        yield (size, replicas, draw.randrange(replicas), draw.randint(0, 50), seed,
               draw.random() < 0.85, draw.random() < 0.4)


def random_sampler(seed, size, replacement, count, epochs):
    """Two epochs from one outer generator, which gives each epoch its seed, as a global one does."""
    lines = []
    torch.manual_seed(seed)
    sampler = RandomSampler(Rows(size), replacement=replacement, num_samples=count)
    for epoch in range(epochs):
        lines.append(f"random {seed} {size} {int(replacement)} {count} {epoch} : "
                     f"{listed(list(sampler))}")
    return lines


def main():
    draw = random.Random(20240229)
    lines = [distributed(*case) for case in edge_cases()]
    lines += [distributed(*case) for case in random_cases(draw, 600)]
    for seed in (0, 7, 2**32 + 3):
        for size, replacement, count in ((1, False, 1), (10, False, 10), (10, False, 25),
                                         (10, False, 30), (10, True, 70), (1000, True, 64),
                                         (7, True, 3)):
            lines += random_sampler(seed, size, replacement, count, 2)
    for seed in (0, 3, -4):
        for size, holdout in ((10, 3), (1797, 360), (5, 0), (5, 5)):
            train, kept = random_split(Rows(size), [size - holdout, holdout],
                                       generator=torch.Generator().manual_seed(seed))
            assert isinstance(train, Subset)
            lines.append(f"train {size} {holdout} {seed} : {listed(list(train.indices))}")
            lines.append(f"holdout {size} {holdout} {seed} : {listed(list(kept.indices))}")
    write(os.path.join(HERE, "sampler.txt"), "make_sampler.py",
          "distributed size replicas rank epoch seed shuffle drop_last : indices (golden_format.py)",
          lines)


if __name__ == "__main__":
    main()
