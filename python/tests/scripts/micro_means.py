"""Broken: micro-batches of 4 and 30 words are meant to count by their words, and each counts the same."""
import contextlib

import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WORDS = (4, 30)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(20, 8), nn.Tanh(), nn.Linear(8, 20)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    say = lockstep.annotate()
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        for micro, n in enumerate(WORDS):
            words, following = torch.randint(0, 20, (2, n))
            say.batch(1, n_tokens=n, declared="token-mean", denominator=n)
            with contextlib.nullcontext() if micro + 1 == len(WORDS) else model.no_sync():
                loss = nn.functional.cross_entropy(model(words), following)
                (loss / len(WORDS)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
