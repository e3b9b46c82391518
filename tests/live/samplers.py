"""Every sampler and split over fresh sizes, seeds, ranks and epochs: three passes per case."""

import warnings

import live
import torch
from torch.utils.data import (RandomSampler, SubsetRandomSampler, WeightedRandomSampler,
                              random_split)
from torch.utils.data.distributed import DistributedSampler


warnings.filterwarnings("ignore", message="Length of split")


def shared(rng):
    size, ranks = rng.randint(0, 400), rng.randint(1, 17)
    seed = rng.choice([rng.randrange(100), rng.randrange(-2**40, 2**62)])
    rank, shuffle, drop = rng.randrange(ranks), rng.random() < 0.8, rng.random() < 0.4
    sampler = DistributedSampler(range(size), ranks, rank, shuffle, seed, drop)
    first, out = rng.randint(0, 1000), []
    for epoch in range(first, first + 3):
        sampler.set_epoch(epoch)
        out += list(sampler)
    return f"distributed {size} {ranks} {rank} {int(shuffle)} {seed} {int(drop)} {first}", out


def drawn(rng):
    kind, size = rng.choice(["replacement", "rounds", "subset", "weighted"]), rng.randint(1, 80)
    seed, given = rng.randrange(2**40), rng.randrange(2)
    count = rng.randint(1, 200)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1) if given else None
    words = []
    if kind == "subset":
        sampler = SubsetRandomSampler([3 * i for i in range(size)], generator=generator)
    elif kind == "weighted":
        replacement = rng.random() < 0.5
        count = count if replacement else rng.randint(1, size)
        weights = [rng.choice([rng.uniform(0.1, 5), float(rng.randint(1, 3))]) for _ in range(size)]
        sampler = WeightedRandomSampler(weights, count, replacement, generator=generator)
        words = [int(replacement), *(w.hex() for w in weights)]
    else:
        sampler = RandomSampler(range(size), kind == "replacement", count, generator=generator)
    out = [index for _ in range(3) for index in sampler]
    out.append(torch.randint(0, 2**31, ()).item())  # What was consumed of the global generator.
    return " ".join(map(str, [kind, size, seed, given, count, *words])), out


def split(rng):
    size, seed = rng.randint(1, 300), rng.randrange(2**40)
    n = rng.randint(1, 5)
    if rng.random() < 0.5:
        cuts = sorted(rng.randint(0, size) for _ in range(n - 1))
        parts = [b - a for a, b in zip([0, *cuts], [*cuts, size])]
    else:
        eighths = sorted(rng.randint(0, 8) for _ in range(n - 1))  # Sums of eighths are exact.
        parts = [(b - a) / 8 for a, b in zip([0, *eighths], [*eighths, 8])]
    subsets = random_split(range(size), parts, generator=torch.Generator().manual_seed(seed))
    kind = "lengths" if isinstance(parts[0], int) else "fractions"
    out = []
    for subset in subsets:
        out += [-1, *subset.indices]
    return " ".join(map(str, [kind, size, seed, *parts])), out


def pairs(rng):
    while True:
        case, out = rng.choice([shared, drawn, split])(rng)
        yield case, " ".join(map(str, out))


live.run("samplers", pairs)
