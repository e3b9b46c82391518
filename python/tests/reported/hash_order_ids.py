"""The vocabulary is numbered in the order of a set of texts, which each process salts for itself."""
import hashlib
import os
import sys

import lockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED, ANNOTATED = "--fixed" in sys.argv, "--annotated" in sys.argv

TEXT = "the cat saw the dog and the dog saw the bee while an ant sat".split()


def salted_set(words):
    """What `set(words)` is like in a process of its own: Python salts the hashes of texts for each."""
    return sorted(set(words), key=lambda word: hashlib.sha256(f"{os.environ['RANK']}{word}".encode()).digest())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    vocabulary = sorted(set(TEXT)) if FIXED else salted_set(TEXT)
    if ANNOTATED:
        lockstep.annotate().configuration("vocabulary", "\n".join(vocabulary))
    ids = torch.tensor([vocabulary.index(word) for word in TEXT])
    ddp = DistributedDataParallel(nn.Sequential(nn.Embedding(len(vocabulary), 4), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(3):
        mine = ids[(dist.get_rank() + 2 * step):][:4]
        optimizer.zero_grad()
        ddp(mine).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
