#!/usr/bin/env python3
"""Writes layers_init.txt: initial weights of layers and schemes, and discrete draws, in bits.

Needs PyTorch 1.13 on a machine with AVX2. Values are 32-bit (64-bit for f64 and integers) words as
signed integers, listed as golden_format.py lists indices; parameters of a layer follow one another.
    layer NAME seed | scheme NAME dtype shape | draw NAME seed | dropout p : words
"""
import math
import os

import torch
from torch import nn

from golden_format import listed, write

HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = (0, 1, 2, 3, 7, 42, 1234, 99991, 2**31, 2**40 + 1)

LAYERS = {
    "linear_5_3": lambda: nn.Linear(5, 3),
    "linear_20_30": lambda: nn.Linear(20, 30),
    "linear_7_9_no_bias": lambda: nn.Linear(7, 9, bias=False),
    "embedding_3_4": lambda: nn.Embedding(3, 4),
    "embedding_11_6": lambda: nn.Embedding(11, 6),
    "embedding_11_6_padding_2": lambda: nn.Embedding(11, 6, padding_idx=2),
    "layer_norm_8": lambda: nn.LayerNorm(8),
    "batch_norm_5": lambda: nn.BatchNorm1d(5),
    "linear_64_1": lambda: nn.Linear(64, 1),
    "mlp_6_4_2": lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)),
}



def with_weight(layer, fill):
    """The layer with a new weight, drawn after its default ones."""
    fill(layer.weight)
    return layer


def small_cnn():
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5))


LAYERS.update({
    "conv_1_2_3": lambda: nn.Conv2d(1, 2, 3),
    "conv_3_8_5x2": lambda: nn.Conv2d(3, 8, (5, 2), stride=2, padding=1),
    "conv_4_6_3_no_bias": lambda: nn.Conv2d(4, 6, 3, bias=False),
    "batch_norm_2d_5": lambda: nn.BatchNorm2d(5),
    "linear_9_7_xavier_uniform": lambda: with_weight(nn.Linear(9, 7), nn.init.xavier_uniform_),
    "conv_2_3_3_kaiming_normal": lambda: with_weight(nn.Conv2d(2, 3, 3), nn.init.kaiming_normal_),
    "linear_9_7_trunc_normal": lambda: with_weight(
        nn.Linear(9, 7), lambda t: nn.init.trunc_normal_(t, std=0.02)),
    "small_cnn": small_cnn,
})

SCHEMES = {
    "normal": lambda t: nn.init.normal_(t, 0.5, 0.02),
    "kaiming_uniform": lambda t: nn.init.kaiming_uniform_(t, nonlinearity="relu"),
    "kaiming_uniform_out": lambda t: nn.init.kaiming_uniform_(t, a=0.2, mode="fan_out"),
    "kaiming_normal": lambda t: nn.init.kaiming_normal_(t, a=math.sqrt(5)),
    "kaiming_normal_out": lambda t: nn.init.kaiming_normal_(t, mode="fan_out"),
    "xavier_uniform": lambda t: nn.init.xavier_uniform_(t, gain=5.0 / 3.0),
    "xavier_normal": lambda t: nn.init.xavier_normal_(t),
    "trunc_normal": lambda t: nn.init.trunc_normal_(t, std=0.02),
    "trunc_normal_narrow": lambda t: nn.init.trunc_normal_(t, 0.5, 1.5, -1.0, 0.75),
}

DRAWS = {
    "bernoulli_f32_0.1": lambda g: torch.empty(50).bernoulli_(0.1, generator=g),
    "bernoulli_f64_0.5": lambda g: torch.empty(50, dtype=torch.float64).bernoulli_(
        0.5, generator=g),
    "randint_0_10": lambda g: torch.randint(0, 10, (50,), generator=g),
    "randint_-7_3000000000": lambda g: torch.randint(-7, 3000000000, (50,), generator=g),
    "randint_-5_1099511627776": lambda g: torch.randint(-5, 2**40, (50,), generator=g),
    "random_i64": lambda g: torch.empty(50, dtype=torch.int64).random_(generator=g),
    "random_f32": lambda g: torch.empty(50).random_(generator=g),
    "random_f64": lambda g: torch.empty(50, dtype=torch.float64).random_(generator=g),
}


def words(tensor):
    wide = tensor.element_size() == 8
    return tensor.detach().flatten().view(torch.int64 if wide else torch.int32).tolist()


def init_lines():
    for name, make in LAYERS.items():
        for seed in SEEDS:
            torch.manual_seed(seed)
            yield (f"layer {name} {seed} : "
                   + listed([w for p in make().parameters() for w in words(p)]))
    for name, fill in SCHEMES.items():
        for dtype, kind in ((torch.float32, "f32"), (torch.float64, "f64")):
            for shape in ((3, 4), (9, 2, 3, 3)):
                torch.manual_seed(42)
                text = "x".join(str(n) for n in shape)
                yield (f"scheme {name} {kind} {text} : "
                       + listed(words(fill(torch.empty(shape, dtype=dtype)))))
    for p in (0.1, 0.5, 0.25):
        torch.manual_seed(42)
        x = torch.ones(30)
        yield f"dropout {p} : {listed(words(nn.Dropout(p)(x)))}"
    for name, draw in DRAWS.items():
        for seed in (0, 42):
            generator = torch.Generator()
            generator.manual_seed(seed)
            yield f"draw {name} {seed} : {listed(words(draw(generator)))}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    write(os.path.join(HERE, "layers_init.txt"), "make_layers.py",
          "layer NAME seed | scheme NAME dtype shape | draw NAME seed | dropout p : words", list(init_lines()))
