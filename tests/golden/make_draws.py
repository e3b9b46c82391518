"""Writes draws.txt: what each distribution of torch's CPU generator draws, for many seeds and shapes.

A line draws twice from one generator: what the first fill leaves behind (half a normal pair) counts.
"""

import math
import os
import random

import torch
from torch.nn import init

from golden_format import digest, write

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64}
SHAPES = [(1,), (2,), (7,), (15,), (16,), (17,), (31,), (64,), (100,), (255,), (257,), (3, 5),
          (4, 4, 4), (13, 17), (2, 3, 4, 5), (640,), (33, 31)]
MATRICES = [(2, 3), (4, 4), (1, 16), (5, 31), (32, 64), (10, 128), (3, 2, 3, 3), (8, 4, 1, 5)]


def words(tensor):
    """Counts of more than 24 as '#', count, digest, first and last three."""
    kinds = {torch.float32: (torch.int32, 8), torch.float64: (torch.int64, 16)}
    view, digits = kinds.get(tensor.dtype, (torch.int64, 16))
    flat = tensor.detach().contiguous().flatten().view(view).tolist()
    mask = 16**digits - 1
    values = [v & mask for v in flat]
    text = [f"{v:0{digits}x}" for v in values]
    if len(values) <= 24:
        return " ".join(text)
    return f"# {len(values)} {digest(values)} " + " ".join(text[:3] + text[-3:])


def fill(kind, tensor, arguments, generator):
    if kind == "uniform":
        tensor.uniform_(*arguments, generator=generator)
    elif kind == "normal":
        tensor.normal_(*arguments, generator=generator)
    elif kind == "randint":
        tensor.random_(int(arguments[0]), int(arguments[1]), generator=generator)
    elif kind == "random":
        tensor.random_(generator=generator)
    elif kind == "bernoulli":
        tensor.bernoulli_(arguments[0], generator=generator)
    elif kind == "exponential":
        tensor.exponential_(arguments[0], generator=generator)


def arguments_of(kind, draw):
    if kind == "uniform":
        low = draw.choice([0.0, -1.0, draw.uniform(-5, 5)])
        return (low, low + draw.choice([1.0, 2.0, draw.uniform(0, 9)]))
    if kind == "normal":
        return draw.choice([(0.0, 1.0), (draw.uniform(-3, 3), draw.uniform(0, 2)), (0.0, 0.02)])
    if kind == "randint":
        low = draw.choice([0, -5, draw.randrange(-2**40, 2**40)])
        width = draw.choice([1, 2, 10, 2**20, 2**31 - 1, 2**32 - 1, 2**32, 2**40, 2**61])
        return (float(low), float(low + width)) if abs(low + width) < 2**53 else (0.0, float(2**61))
    if kind == "bernoulli":
        return (draw.choice([0.0, 0.5, 1.0, draw.random()]),)
    if kind == "exponential":
        return (draw.choice([1.0, draw.uniform(0.01, 20)]),)
    return ()


KINDS = [(kind, name) for kind in ("uniform", "normal", "bernoulli", "exponential", "random")
         for name in ("f32", "f64")] + [("randint", "i64"), ("random", "i64")]
SCHEMES = [(scheme, name) for scheme in (
    "xavier_uniform", "xavier_normal", "kaiming_uniform_in", "kaiming_uniform_out",
    "kaiming_normal_in", "kaiming_normal_out", "trunc_normal") for name in ("f32", "f64")]


def one_fill(kind, name, draw):
    """One line, and how many elements it drew."""
    seed = draw.choice([draw.randrange(1000), draw.randrange(2**63), -draw.randrange(2**63)])
    arguments = arguments_of(kind, draw)
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for shape in (draw.choice(SHAPES), draw.choice(SHAPES)):
        tensor = torch.empty(shape, dtype=TYPES[name])
        fill(kind, tensor, arguments, generator)
        parts.append(tensor.flatten())
    case = [kind, name, seed, parts[0].numel(), parts[1].numel(), *(a.hex() for a in arguments)]
    both = torch.cat(parts)
    return f"{' '.join(map(str, case))} : {words(both)}", both.numel()


def initial(scheme, tensor, argument):
    if scheme == "xavier_uniform":
        init.xavier_uniform_(tensor, argument)
    elif scheme == "xavier_normal":
        init.xavier_normal_(tensor, argument)
    elif scheme.startswith("kaiming"):
        one = init.kaiming_uniform_ if "uniform" in scheme else init.kaiming_normal_
        mode = "fan_out" if scheme.endswith("out") else "fan_in"
        one(tensor, a=argument, mode=mode, nonlinearity="leaky_relu")
    elif scheme == "trunc_normal":
        init.trunc_normal_(tensor, 0.0, argument, -2 * argument, 2 * argument)


def one_init(scheme, name, draw):
    seed = draw.randrange(2**40)
    shape = draw.choice(MATRICES)
    argument = draw.choice([1.0, 0.02, math.sqrt(5), draw.uniform(0.1, 3)])
    torch.manual_seed(seed)
    tensor = torch.empty(shape, dtype=TYPES[name])
    initial(scheme, tensor, argument)
    case = [scheme, name, seed, argument.hex(), *shape]
    return f"{' '.join(map(str, case))} : {words(tensor)}", tensor.numel()


def one_multinomial(draw, single=False):
    n = draw.randint(1, 40)
    replacement = single or draw.random() < 0.6
    count = draw.randint(1, 200) if replacement else draw.randint(1, n)
    count = 1 if single else count
    weights = torch.tensor([2.0**draw.randint(-6, 6) * draw.uniform(1, 9) for _ in range(n)],
                           dtype=torch.float64)
    seed = draw.randrange(2**32)
    places = torch.multinomial(weights, count, replacement,
                               generator=torch.Generator().manual_seed(seed))
    case = ["multinomial", "i64", seed, count, int(replacement),
            *(w.hex() for w in weights.tolist())]
    return f"{' '.join(map(str, case))} : {words(places)}", count


def one_permutation(draw):
    seed, n = draw.randrange(2**40), draw.choice([draw.randint(0, 60), draw.randint(0, 1500)])
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return f"randperm i64 {seed} {n} : {words(order)}", n


def until(total, one):
    """Lines of `one` until they have drawn `total` elements."""
    drawn = 0
    while drawn < total:
        line, count = one()
        drawn += count
        yield line


def main():
    draw = random.Random(1997)
    lines = []
    for kind, name in KINDS:
        lines += until(5000, lambda: one_fill(kind, name, draw))  # pylint: disable=W0640
    for scheme, name in SCHEMES:
        lines += until(5000, lambda: one_init(scheme, name, draw))  # pylint: disable=W0640
    lines += until(5000, lambda: one_multinomial(draw))
    lines += until(20000, lambda: one_permutation(draw))
    lines += until(20, lambda: one_multinomial(draw, single=True))
    write(os.path.join(HERE, "draws.txt"), "make_draws.py",
          "distribution type seed counts arguments | multinomial type seed count replacement weights"
          " | scheme type seed argument shape : bits, of more than 24 a digest", lines)


if __name__ == "__main__":
    main()
