"""Attention and GPT: bits where nothing rounds, balls that hold every rounded evaluation elsewhere."""

import math
import os
import struct
import sys

import live
import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import gpt_reference as reference  # noqa: E402

TYPES = {"f32": (torch.float32, 2.0**-24), "f64": (torch.float64, 2.0**-53)}


def generator_of(rng):
    return torch.Generator().manual_seed(rng.randrange(2**32))


def run_torch(tensors, grad, causal):
    """Values and gradients of softmax(q k^T / sqrt(D) + mask) v."""
    q, k, v = (t.clone().requires_grad_() for t in tensors)
    shape = (q.shape[1], k.shape[1])
    mask = torch.zeros(shape, dtype=q.dtype)
    if causal:
        mask = torch.full(shape, -math.inf, dtype=q.dtype).triu(1)
    y = reference.attend(q, k, v, mask)
    y.backward(grad)
    return [y.detach(), q.grad, k.grad, v.grad]


def exact(rng):
    """Scores are equal or far apart, so that weights are 0, 1, 1/2 or 1/4 and nothing rounds."""
    name = rng.choice(list(TYPES))
    dtype = TYPES[name][0]
    draw = generator_of(rng)
    while True:
        n, t, d = rng.randrange(1, 4), rng.randrange(1, 7), rng.choice([1, 4, 16])
        causal = rng.random() < 0.7
        s = t if causal else rng.randrange(1, 7)
        q = 4096 * torch.randint(-2, 3, (n, t, d), generator=draw).to(dtype)
        k = torch.randint(-2, 3, (n, s, d), generator=draw).to(dtype)
        v, grad = (torch.randint(-8, 9, (n, rows, d), generator=draw).to(dtype) for rows in (s, t))
        scores = q @ k.transpose(1, 2)
        if causal:
            scores = scores.masked_fill(torch.ones(t, t).triu(1) > 0, -math.inf)
        ties = (scores == scores.max(-1, keepdim=True).values).sum(-1)
        if all(count in (1, 2, 4) for count in ties.flatten().tolist()):
            break
    given = " ".join(live.bits(x) for x in (q, k, v, grad))
    wanted = " ".join(live.bits(x + 0.0) for x in run_torch((q, k, v), grad, causal))
    return f"exact {name} {n} {t} {s} {d} {int(causal)} {given}", wanted


def balls_text(balls):
    return " ".join(struct.pack(">d", number).hex() for _, centres, radii in balls
                    for pair in zip(centres.flatten(), radii.flatten()) for number in pair)


def smooth(rng):
    name = rng.choice(list(TYPES))
    dtype, u = TYPES[name]
    draw = generator_of(rng)
    n, t, d = rng.randrange(1, 4), rng.randrange(1, 9), rng.randrange(1, 9)
    causal = rng.random() < 0.7
    s = t if causal else rng.randrange(1, 9)
    q, k, v, grad = (torch.randn(n, rows, d, generator=draw, dtype=dtype) for rows in (t, s, s, t))
    keep = numpy.tril(numpy.ones((t, s))) if causal else numpy.ones((t, s))
    balls = [reference.Ball(x.numpy(), u=u) for x in (q, k, v, grad)]
    y, saved = reference.attention(*balls[:3], keep)
    wanted = (y, *reference.attention_backward(balls[3], saved))
    values = run_torch((q, k, v), grad, causal)
    balls = [reference.inside(*entry) for entry in zip(("y", "dq", "dk", "dv"), values, wanted)]
    given = " ".join(live.bits(x) for x in (q, k, v, grad))
    return f"smooth {name} {n} {t} {s} {d} {int(causal)} {given} {balls_text(balls)}", "ok"


def loss(rng):
    name = rng.choice(list(TYPES))
    dtype, u = TYPES[name]
    draw = generator_of(rng)
    n, c = rng.randrange(1, 12), rng.randrange(1, 9)
    x = (3 * torch.randn(n, c, generator=draw, dtype=dtype)).requires_grad_()
    labels = torch.randint(0, c, (n,), generator=draw)
    labels[torch.rand(n, generator=draw) < 0.3] = -100
    labels[rng.randrange(n)] = rng.randrange(c)
    value = torch.nn.functional.cross_entropy(x, labels)
    value.backward()
    data = reference.Ball(x.detach().numpy(), u=u)
    wanted = zip(("loss", "dx"), (value, x.grad), reference.cross_entropy(data, labels.numpy()))
    balls = [reference.inside(*entry) for entry in wanted]
    return f"loss {name} {n} {c} {live.bits(x)} {live.bits(labels)} {balls_text(balls)}", "ok"


def any_options(rng, most_layers):
    heads = rng.randrange(1, 4)
    return dict(vocab=rng.randrange(2, 9), context=rng.randrange(1, 7),
                layers=rng.randrange(1, most_layers + 1), heads=heads,
                width=heads * rng.randrange(2, 5), tied=rng.random() < 0.6, dropout=0.0)


def options_text(o):
    names = ("vocab", "context", "layers", "heads", "width")
    return " ".join(str(o[k]) for k in names) + f" {int(o['tied'])} {o['dropout']}"


def initial(rng):
    o = any_options(rng, 3)
    seed = rng.randrange(2**32)
    torch.manual_seed(seed)
    model = reference.Gpt(o)
    return (f"init {options_text(o)} {seed}",
            " ".join(live.bits(parameter) for parameter in model.parameters()))


def model(rng):
    o = any_options(rng, 2)
    o["dropout"] = rng.choice([0.0, 0.0, 0.25, 0.5])
    batch, length = rng.randrange(1, 4), rng.randrange(1, o["context"] + 1)
    seed, masks_seed = rng.randrange(2**32), rng.randrange(2**32)
    draw = generator_of(rng)
    tokens, targets = (torch.randint(0, o["vocab"], (batch, length), generator=draw)
                       for _ in range(2))
    balls = reference.gpt_case(o, seed, tokens, targets, masks_seed)
    given = " ".join(str(t) for t in tokens.flatten().tolist() + targets.flatten().tolist())
    return (f"model {options_text(o)} {batch} {length} {seed} {masks_seed} {given} "
            + balls_text(balls), "ok")


def pairs(rng):
    while True:
        yield rng.choice([exact, smooth, loss, initial, model])(rng)


torch.set_num_threads(1)
live.run("attention", pairs)
