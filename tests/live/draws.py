"""What the CPU generator draws: one seed and one call a case."""

import live
import torch


def pairs(rng):
    while True:
        seed = rng.choice([rng.randrange(2**64), rng.randrange(1000), -rng.randrange(1, 2**63)])
        generator = torch.Generator()
        generator.manual_seed(seed)
        n = rng.choice([rng.randrange(0, 40), rng.randrange(0, 2000)])
        yield (f"randperm {seed % 2**64} {n}", live.bits(torch.randperm(n, generator=generator)))


live.run("draws", pairs)
