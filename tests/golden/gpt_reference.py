"""A small GPT in PyTorch, and how far its values computed in another precision may be off.

The bounds come from ball arithmetic: every number is a centre and a radius that together hold the
result of *any* evaluation of the same formula in which each operation is rounded once to a relative
error of u, sums and products of matrices run in any order (gamma_n = n u / (1 - n u), Higham,
"Accuracy and Stability of Numerical Algorithms", 3.1), fused or not, and exp, log and tanh are good to
two units in the last place. So nothing is estimated: a correct program stays inside. Centres are 80-bit
numbers, whose own rounding is 2^-11 of what they bound. Balls widen by the norm of what they pass
through, so a whole model is compared in double precision; its parts in single precision too.
"""
import math

import numpy
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.c_attn = nn.Linear(o["width"], 3 * o["width"])
        self.c_proj = nn.Linear(o["width"], o["width"])
        self.weight_dropout = nn.Dropout(o["dropout"])
        self.resid_dropout = nn.Dropout(o["dropout"])

    def forward(self, x):
        b, t, c = x.shape
        heads = [y.view(b, t, self.o["heads"], -1).transpose(1, 2)
                 for y in self.c_attn(x).split(c, dim=2)]
        mask = torch.full((t, t), -math.inf, dtype=x.dtype).triu(1)
        y = attend(*heads, mask, self.weight_dropout)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(b, t, c)))


def attend(q, k, v, mask, dropout=lambda w: w):
    scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(q.shape[-1]))
    return dropout(torch.softmax(scores + mask, dim=-1)) @ v


class Mlp(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.c_fc = nn.Linear(o["width"], 4 * o["width"])
        self.c_proj = nn.Linear(4 * o["width"], o["width"])
        self.dropout = nn.Dropout(o["dropout"])

    def forward(self, x):
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.ln_1 = nn.LayerNorm(o["width"])
        self.attn = Attention(o)
        self.ln_2 = nn.LayerNorm(o["width"])
        self.mlp = Mlp(o)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.wte = nn.Embedding(o["vocab"], o["width"])
        self.wpe = nn.Embedding(o["context"], o["width"])
        self.drop = nn.Dropout(o["dropout"])
        self.h = nn.ModuleList([Block(o) for _ in range(o["layers"])])
        self.ln_f = nn.LayerNorm(o["width"])
        self.lm_head = nn.Linear(o["width"], o["vocab"], bias=False)
        if o["tied"]:
            self.wte.weight = self.lm_head.weight
        self.apply(self._draw)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * o["layers"]))

    @staticmethod
    def _draw(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, 0.0, 0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        x = self.drop(x)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Ball:
    """Arrays of centres and radii under one unit roundoff."""

    def __init__(self, c, r=None, u=2.0**-53):
        self.c = numpy.asarray(c, numpy.longdouble)
        self.r = numpy.zeros_like(self.c) if r is None else numpy.broadcast_to(r, self.c.shape)
        self.u = u

    def made(self, c, r, rounding=None):
        rounding = self.u * (numpy.abs(c) + r) if rounding is None else rounding
        return Ball(c, r + rounding, self.u)

    def ball(self, other):
        return other if isinstance(other, Ball) else Ball(other, self.u * numpy.abs(other), self.u)

    @property
    def most(self):
        return numpy.abs(self.c) + self.r

    def __add__(self, other):
        b = self.ball(other)
        return self.made(self.c + b.c, self.r + b.r)

    def __sub__(self, other):
        b = self.ball(other)
        return self.made(self.c - b.c, self.r + b.r)

    def __mul__(self, other):
        b = self.ball(other)
        return self.made(self.c * b.c, numpy.abs(self.c) * b.r + self.r * b.most)

    def __truediv__(self, other):
        b = self.ball(other)
        c = self.c / b.c
        return self.made(c, (self.r + numpy.abs(c) * b.r) / (numpy.abs(b.c) - b.r))

    def gamma(self, n):
        return n * self.u / (1 - n * self.u)

    def sum(self, axis, keepdims=True):
        n = self.c.shape[axis]
        return self.made(self.c.sum(axis, keepdims=keepdims), self.r.sum(axis, keepdims=keepdims),
                         self.gamma(n) * self.most.sum(axis, keepdims=keepdims))

    def __matmul__(self, b):
        n = self.c.shape[-1]
        return self.made(self.c @ b.c, numpy.abs(self.c) @ b.r + self.r @ b.most,
                         self.gamma(n + 1) * (self.most @ b.most))

    def exp(self):
        c = numpy.exp(self.c)
        return self.made(c, c * numpy.expm1(self.r), 4 * self.u * c * numpy.exp(self.r))

    def log(self):
        c = numpy.log(self.c)
        r = self.r / (self.c - self.r)
        return self.made(c, r, 4 * self.u * (numpy.abs(c) + r))

    def tanh(self):
        c = numpy.tanh(self.c)
        return self.made(c, self.r, 4 * self.u * numpy.minimum(numpy.abs(c) + self.r, 1.0))

    def rsqrt(self):  # 1 / sqrt: two roundings.
        c = 1 / numpy.sqrt(self.c)
        r = 1 / numpy.sqrt(self.c - self.r) - c
        return self.made(c, r, 2.001 * self.u * (c + r))

    def reshape(self, *shape):
        return Ball(self.c.reshape(*shape), self.r.reshape(*shape), self.u)

    def transpose(self, *axes):
        return Ball(self.c.transpose(*axes), self.r.transpose(*axes), self.u)

    @property
    def T(self):
        return Ball(self.c.swapaxes(-1, -2), self.r.swapaxes(-1, -2), self.u)

    def masked(self, keep):
        return Ball(self.c * keep, self.r * keep, self.u)


class Saved(dict):
    __getattr__ = dict.__getitem__


def layer_norm(x, weight, bias):
    n = x.c.shape[-1]
    centred = x - x.sum(-1) / Ball(n, u=x.u)
    variance = (centred * centred).sum(-1) / Ball(n, u=x.u)
    inverse = (variance + 1e-5).rsqrt()
    hat = centred * inverse
    return hat * weight + bias, Saved(hat=hat, inverse=inverse, weight=weight)


def layer_norm_backward(grad, s):
    n = Ball(grad.c.shape[-1], u=grad.u)
    d = grad * s.weight
    inner = d - d.sum(-1) / n - s.hat * ((d * s.hat).sum(-1) / n)
    return inner * s.inverse, (grad * s.hat).sum(0, False), grad.sum(0, False)


def softmax(x, keep):
    top = numpy.where(keep, x.c, -numpy.inf).max(-1, keepdims=True)
    high = Ball(top, numpy.where(keep, x.r, 0).max(-1, keepdims=True), x.u)
    shifted = x - high
    shifted = Ball(numpy.where(keep, shifted.c, 0), numpy.where(keep, shifted.r, 0), x.u)
    e = shifted.exp().masked(keep)
    return e / e.sum(-1)


def attention(q, k, v, keep, mask=None):
    """All (N, T, D); mask (N, T, T) or None."""
    scale = 1 / math.sqrt(q.c.shape[-1])
    p = softmax((q @ k.T) * scale, keep)
    dropped = p if mask is None else p * mask
    return dropped @ v, Saved(q=q, k=k, v=v, p=p, dropped=dropped, keep=keep, mask=mask,
                              scale=scale)


def attention_backward(grad, s):
    d_p = grad @ s.v.T
    if s.mask is not None:
        d_p = d_p * s.mask
    d_p = d_p.masked(s.keep)
    d_s = (s.p * (d_p - (d_p * s.p).sum(-1))).masked(s.keep) * s.scale
    return d_s @ s.k, d_s.T @ s.q, s.dropped.T @ grad


BETA = math.sqrt(2 / math.pi)


def gelu(x):
    cube = x * x * x
    bent = ((x + cube * 0.044715) * BETA).tanh()
    one = Ball(1.0, u=x.u)
    return x * Ball(0.5, u=x.u) * (bent + one), Saved(x=x, bent=bent)


def gelu_backward(grad, s):
    one, half = Ball(1.0, u=grad.u), Ball(0.5, u=grad.u)
    inner = (one + s.x * s.x * (Ball(3.0, u=grad.u) * 0.044715)) * BETA
    return grad * (half * (one + s.bent) + half * s.x * (one - s.bent * s.bent) * inner)


def cross_entropy(x, labels, ignored=-100):
    n, c = x.c.shape
    kept = labels != ignored
    high = Ball(x.c.max(1, keepdims=True), x.r.max(1, keepdims=True), x.u)
    logs = x - high - (x - high).exp().sum(1).log()
    hot = numpy.zeros((n, c))
    hot[kept, labels[kept]] = 1
    count = Ball(float(kept.sum()), u=x.u)
    loss = (logs * Ball(-hot, u=x.u)).sum(1).sum(0, False) / count
    share = Ball(kept.astype(float)[:, None] * numpy.ones((n, c)), u=x.u) / count
    return loss, logs.exp() * share - Ball(hot, u=x.u) / count


def gpt_balls(model, o, tokens, targets, masks, u):
    """Names and radii of logits, loss and all gradients, in the order of named_parameters()."""
    p = {name: Ball(value.detach().numpy(), u=u) for name, value in model.named_parameters()}
    head = p["wte.weight"] if o["tied"] else p["lm_head.weight"]
    b, t = tokens.shape
    h, c = o["heads"], o["width"]
    keep = numpy.tril(numpy.ones((t, t)))
    masks = iter(masks)

    def drop(x):
        return (x, None) if not o["dropout"] else (lambda m: (x * m, m))(next(masks).reshape(x.c.shape))

    hot_t = numpy.eye(o["vocab"])[tokens.reshape(-1)]
    hot_p = numpy.eye(o["context"])[numpy.tile(numpy.arange(t), b)]
    x = Ball(hot_t @ p["wte.weight"].c, u=u) + Ball(hot_p @ p["wpe.weight"].c, u=u)
    x, first_mask = drop(x)
    tape = []
    for i in range(o["layers"]):
        w = {n[len(f"h.{i}."):]: v for n, v in p.items() if n.startswith(f"h.{i}.")}
        n1, s1 = layer_norm(x, w["ln_1.weight"], w["ln_1.bias"])
        qkv = n1 @ w["attn.c_attn.weight"].T + w["attn.c_attn.bias"]
        parts = qkv.reshape(b, t, 3, h, c // h).transpose(2, 0, 3, 1, 4)
        q, k, v = (Ball(parts.c[j].reshape(b * h, t, -1), parts.r[j].reshape(b * h, t, -1), u)
                   for j in range(3))
        mask = next(masks).reshape(b * h, t, t) if o["dropout"] else None
        y, sa = attention(q, k, v, keep, mask)
        y = y.reshape(b, h, t, c // h).transpose(0, 2, 1, 3).reshape(b * t, c)
        a, m1 = drop(y @ w["attn.c_proj.weight"].T + w["attn.c_proj.bias"])
        x = x + a
        n2, s2 = layer_norm(x, w["ln_2.weight"], w["ln_2.bias"])
        f = n2 @ w["mlp.c_fc.weight"].T + w["mlp.c_fc.bias"]
        g, sg = gelu(f)
        z, m2 = drop(g @ w["mlp.c_proj.weight"].T + w["mlp.c_proj.bias"])
        x = x + z
        tape.append(Saved(w=w, n1=n1, s1=s1, sa=sa, y=y, m1=m1, n2=n2, s2=s2, g=g, sg=sg, m2=m2))
    last, sf = layer_norm(x, p["ln_f.weight"], p["ln_f.bias"])
    logits = last @ head.T
    loss, d = cross_entropy(logits, targets.reshape(-1))
    grads = {"lm_head.weight": d.T @ last}
    d, grads["ln_f.weight"], grads["ln_f.bias"] = layer_norm_backward(d @ head, sf)
    for i in reversed(range(o["layers"])):
        s = tape[i]
        at = f"h.{i}."

        def linear_backward(grad, value, name):
            grads[at + name + ".weight"] = grad.T @ value
            grads[at + name + ".bias"] = grad.sum(0, False)
            return grad @ s.w[name + ".weight"]

        dz = d if s.m2 is None else d * s.m2
        df = gelu_backward(linear_backward(dz, s.g, "mlp.c_proj"), s.sg)
        dx, grads[at + "ln_2.weight"], grads[at + "ln_2.bias"] = layer_norm_backward(
            linear_backward(df, s.n2, "mlp.c_fc"), s.s2)
        d = d + dx
        dy = linear_backward(d if s.m1 is None else d * s.m1, s.y, "attn.c_proj")
        dy = dy.reshape(b, t, h, c // h).transpose(0, 2, 1, 3).reshape(b * h, t, c // h)
        parts = attention_backward(dy, s.sa)
        stack = Ball(numpy.stack([x.c for x in parts]), numpy.stack([x.r for x in parts]), u)
        dqkv = stack.reshape(3, b, h, t, c // h).transpose(1, 3, 0, 2, 4).reshape(b * t, 3 * c)
        dx, grads[at + "ln_1.weight"], grads[at + "ln_1.bias"] = layer_norm_backward(
            linear_backward(dqkv, s.n1, "attn.c_attn"), s.s1)
        d = d + dx
    if first_mask is not None:
        d = d * first_mask
    grads["wpe.weight"] = Ball(hot_p.T, u=u) @ d
    grads["wte.weight"] = Ball(hot_t.T, u=u) @ d
    if o["tied"]:
        grads["wte.weight"] = grads["wte.weight"] + grads.pop("lm_head.weight")
    return [("logits", logits), ("loss", loss)] + [
        (name, grads[name]) for name, _ in model.named_parameters()]


def inside(name, value, ball):
    """The ball as (name, centre, radius) in double precision, PyTorch's own value being inside."""
    centre = ball.c.astype(numpy.float64)
    radius = (ball.r * (1 + 2.0**-10)).astype(numpy.float64) + 2.0**-53 * numpy.abs(centre)
    value = value.detach().double().numpy().reshape(centre.shape)
    assert (numpy.abs(value - centre) <= radius).all(), f"PyTorch's {name} is outside"
    return name, centre, radius


def gpt_case(o, seed, tokens, targets, masks_seed):
    """Balls of logits, loss and gradients in double precision, parameters being normal(0, 0.5)."""
    model = Gpt(o).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    torch.manual_seed(masks_seed)
    logits = model(tokens)
    loss = F.cross_entropy(logits.view(-1, o["vocab"]), targets.view(-1))
    loss.backward()
    torch.manual_seed(masks_seed)
    masks = draw_masks(o, tokens)
    balls = gpt_balls(model, o, tokens.numpy(), targets.numpy(), masks, 2.0**-53)
    values = [logits, loss] + [p.grad for p in model.parameters()]
    return [inside(name, value, ball) for (name, ball), value in zip(balls, values)]


def draw_masks(o, tokens):
    """The masks of one forward, in the order in which it draws them."""
    if not o["dropout"]:
        return []
    b, t = tokens.shape
    rows, scores = (b, t, o["width"]), (b, o["heads"], t, t)
    drawn = [rows] + [scores, rows, rows] * o["layers"]
    keep = 1.0 - o["dropout"]
    masks = [torch.empty(s, dtype=torch.float64).bernoulli_(keep).numpy() / keep for s in drawn]
    u = 2.0**-53
    return [Ball(m.reshape(-1), u * m.reshape(-1), u) for m in masks]
