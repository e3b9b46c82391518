"""Each rank's loss is the mean over the tokens of its own sequences, whose lengths differ: a token counts more where there are fewer."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIXED = "--fixed" in sys.argv
PADDING = -100


def sequences(rank, draws):
    """Two sequences of at most 12 tokens, padded."""
    tokens = torch.randint(0, 16, (2, 12), generator=draws)
    targets = tokens.roll(-1, 1)
    for row in range(2):
        length = 3 + 6 * rank + int(torch.randint(0, 3, (1,), generator=draws))
        targets[row, length:] = PADDING
    return tokens, targets


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    draws = torch.Generator().manual_seed(rank)
    for _ in range(6):
        tokens, targets = sequences(rank, draws)
        optimizer.zero_grad()
        logits = model(tokens)
        if FIXED:
            n_tokens = (targets != PADDING).sum()
            dist.all_reduce(n_tokens)
            total = nn.functional.cross_entropy(logits.view(-1, 16), targets.view(-1), reduction="sum")
            loss = total * size / n_tokens
        else:
            loss = nn.functional.cross_entropy(logits.view(-1, 16), targets.view(-1))
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
