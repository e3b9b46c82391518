"""Models that people train have the bits of real Gloo after every step: gradients, parameters and buffers."""
from __future__ import annotations

from pathlib import Path

import pytest
from equal_to_gloo_test import results

HEAD = '''
import contextlib, hashlib
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())

class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))

class Gpt(nn.Module):
    """Its output layer is its embedding."""
    def __init__(self, words=97, width=32, length=12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, ids):
        hidden = self.blocks(self.words(ids) + self.places, mask=self.mask, is_causal=True)
        return F.linear(hidden, self.words.weight).flatten(0, 1)

class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(97, 24), nn.LSTM(24, 48, 2, batch_first=True), nn.Linear(48, 10)

    def forward(self, ids):
        return self.head(self.lstm(self.words(ids))[0][:, -1])

class Mlp(nn.Sequential):
    """A bucket above 1 MiB, and one below."""
    def __init__(self):
        super().__init__(nn.Linear(600, 600), nn.GELU(), nn.LayerNorm(600), nn.Linear(600, 400), nn.GELU(), nn.Linear(400, 10))

def batch_for(model):
    if isinstance(model, Gpt):
        ids = torch.randint(97, (3, 12))
        return ids, ids.roll(-1, 1).flatten()
    inputs = {Cnn: lambda: torch.randn(4, 3, 8, 8), Lstm: lambda: torch.randint(97, (4, 9)), Mlp: lambda: torch.randn(4, 600)}
    return inputs[type(model)](), torch.randint(10, (4,))

'''
LOOP = '''
ddp = DistributedDataParallel(model, **options)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
for step in range(4):
    optimizer.zero_grad()
    for micro in range(accumulate):
        x, y = batch_for(model)
        with contextlib.nullcontext() if micro == accumulate - 1 else ddp.no_sync():
            (F.cross_entropy(ddp(x), y) / accumulate).backward()
    nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
    optimizer.step()
    state = [p.grad for p in ddp.parameters()] + list(ddp.state_dict().values())
    digest = hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in state)).hexdigest()
    print("rank", dist.get_rank(), step, digest, flush=True)
'''
MODELS = {
    "a CNN with batch norm": "model, options, accumulate = Cnn(), {}, 1",
    "a CNN, small buckets as views": (
        "model, options, accumulate = Cnn(), dict(bucket_cap_mb=0.004, gradient_as_bucket_view=True), 1"),
    "a tied GPT that accumulates": "model, options, accumulate = Gpt(), dict(bucket_cap_mb=0.05), 3",
    "a tied GPT, static graph": "model, options, accumulate = Gpt(), dict(static_graph=True), 1",
    "an LSTM": "model, options, accumulate = Lstm(), dict(find_unused_parameters=True), 2",
    "a bucket above a mebibyte": "model, options, accumulate = Mlp(), {}, 1"}


def check(name: str, ranks: int, scratch: Path) -> None:
    virtual, real = results(HEAD + MODELS[name] + LOOP, ranks, scratch)
    assert len(virtual) == ranks * 4
    assert virtual == real


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_bits_of_gloo(name: str, ranks: int, tmp_path: Path) -> None:
    check(name, ranks, tmp_path)
