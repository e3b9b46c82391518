"""Writes optim.txt: trajectories of optimizers, clipped gradients."""

import os
import struct

import torch
from torch import nn

from golden_format import write

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"f32": torch.float32, "f64": torch.float64}
ELEMENTS = 11
STEPS = 50


def bits(tensor):
    """Elements as hex words, row major."""
    flat = tensor.detach().reshape(-1).tolist()
    form = ">f" if tensor.dtype == torch.float32 else ">d"
    return [struct.pack(form, value).hex() for value in flat]


ADAM = [
    dict(lr=0.1),
    dict(lr=0.01, betas=(0.5, 0.9), eps=1e-3),
    dict(lr=0.1, weight_decay=0.03, amsgrad=True),
    dict(lr=0.1, betas=(0.3, 0.75), weight_decay=0.2, maximize=True),
    dict(lr=0.02, amsgrad=True, maximize=True),
]
OPTIMIZERS = {
    "adam": (torch.optim.Adam, ADAM),
    "adamw": (torch.optim.AdamW, ADAM),
    "adagrad": (torch.optim.Adagrad, [
        dict(lr=0.1),
        dict(lr=0.1, lr_decay=0.05, weight_decay=0.03),
        dict(lr=0.3, initial_accumulator_value=0.5, eps=1e-3, maximize=True),
    ]),
    "rmsprop": (torch.optim.RMSprop, [
        dict(lr=0.01),
        dict(lr=0.03, alpha=0.9, eps=1e-3, weight_decay=0.1),
        dict(lr=0.02, momentum=0.9),
        dict(lr=0.02, centered=True, alpha=0.4),
        dict(lr=0.02, centered=True, momentum=0.5, weight_decay=0.01, maximize=True),
    ]),
}


def optimizer_lines():
    """Start and the gradients, then '|', then the parameter after steps 1, 2, 10 and 50 and the state.

    Gradients are eighths in [-2, 2), a third of them zero or repeated, as real ones are. They are
    written as signed eighths of one step a word list: compact, exact in both dtypes.
    """
    for name, (kind, cases) in OPTIMIZERS.items():
        for dtype in DTYPES:
            for seed, options in enumerate(cases):
                g = torch.Generator().manual_seed(200 + seed)
                parameter = nn.Parameter(torch.randn(ELEMENTS, generator=g, dtype=DTYPES[dtype]))
                optimizer = kind([parameter], foreach=False, **options)
                before, after = bits(parameter), []
                for step in range(1, STEPS + 1):
                    eighths = torch.randint(-16, 16, (ELEMENTS,), generator=g)
                    before += [str(n) for n in eighths.tolist()]
                    parameter.grad = eighths.to(DTYPES[dtype]) / 8
                    optimizer.step()
                    if step in (1, 2, 10, 50):
                        after += bits(parameter)
                state = optimizer.state[parameter]
                for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "sum", "square_avg",
                            "momentum_buffer", "grad_avg"):
                    if key in state:
                        after += [key] + bits(state[key])
                flat = " ".join(f"{k}={v!r}".replace(" ", "") for k, v in options.items())
                flat = flat.replace("betas=(", "beta1=").replace(",", " beta2=").replace(")", "")
                flat = flat.replace("True", "1")
                yield f"{name} {dtype} {flat} : {' '.join(before)} | {' '.join(after)}"


def clip_lines():
    """Infinity norm and value clipping, whose bits no order of summation touches."""
    for dtype in DTYPES:
        g = torch.Generator().manual_seed(7)
        for limit in (0.75, 0.1, 50.0):
            p = [nn.Parameter(torch.zeros(n, dtype=DTYPES[dtype])) for n in (11, 3)]
            for one in p:
                one.grad = torch.randn(one.shape, generator=g, dtype=DTYPES[dtype])
            before = [word for one in p for word in bits(one.grad)]
            kept = [one.grad.clone() for one in p]
            total = nn.utils.clip_grad_norm_(p, limit, float("inf"))
            after = bits(total) + [word for one in p for word in bits(one.grad)]
            for one, grad in zip(p, kept):
                one.grad = grad
            nn.utils.clip_grad_value_(p, limit)
            after += [word for one in p for word in bits(one.grad)]
            yield f"clip {dtype} {limit!r} : {' '.join(before)} | {' '.join(after)}"


def main():
    write(os.path.join(HERE, "optim.txt"), "make_optim.py",
          "optimizer dtype options : start, 50 gradients in eighths | parameter, state",
          [*optimizer_lines(), *clip_lines()])


main()
