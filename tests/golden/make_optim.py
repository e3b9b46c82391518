"""Writes optim.txt: trajectories of optimizers, clipped gradients.

With torch 2 it writes optim_torch2.txt, the same without the inputs, which are those of optim.txt.
PyTorch's own wheels take square roots from MKL, which does not round them correctly (a fifth of the
floats are one bit off in 2.15.0); a root that does stands in for it here, as in builds without MKL.
"""

import math
import os
import struct

import torch
from torch import nn

from golden_format import write

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"f32": torch.float32, "f64": torch.float64}
ELEMENTS = 11
STEPS = 50
TORCH2 = torch.__version__.startswith("2")


def rounded_root(tensor):
    """The square root, rounded once: a double's root rounds to a float's."""
    roots = [math.sqrt(v) if v >= 0 else math.nan for v in tensor.detach().reshape(-1).tolist()]
    return torch.tensor(roots, dtype=torch.float64).reshape(tensor.shape).to(tensor.dtype)


if TORCH2:
    torch.Tensor.sqrt = rounded_root
    torch.Tensor.sqrt_ = lambda tensor: tensor.copy_(rounded_root(tensor))


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
    dict(lr=0.1, rough=True),
]
SGD = [
    dict(lr=0.1),
    dict(lr=0.05, momentum=0.9),
    dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.01),
    dict(lr=0.02, momentum=0.8, nesterov=True, weight_decay=0.1),
    dict(lr=0.02, momentum=0.5, weight_decay=0.05, maximize=True),
    dict(lr=0.1, weight_decay=0.2),
    dict(lr=0.1, momentum=0.7, dampening=0.1, rough=True),
]
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, SGD),
    "adam": (torch.optim.Adam, ADAM),
    "adamw": (torch.optim.AdamW, ADAM),
    "adagrad": (torch.optim.Adagrad, [
        dict(lr=0.1),
        dict(lr=0.1, lr_decay=0.05, weight_decay=0.03),
        dict(lr=0.3, initial_accumulator_value=0.5, eps=1e-3, maximize=True),
        dict(lr=0.1, rough=True),
    ]),
    "rmsprop": (torch.optim.RMSprop, [
        dict(lr=0.01),
        dict(lr=0.03, alpha=0.9, eps=1e-3, weight_decay=0.1),
        dict(lr=0.02, momentum=0.9),
        dict(lr=0.02, centered=True, alpha=0.4),
        dict(lr=0.02, centered=True, momentum=0.5, weight_decay=0.01, maximize=True),
        dict(lr=0.02, centered=True, rough=True),
    ]),
}


def known_starts():
    """The start of each line of optim.txt."""
    with open(os.path.join(HERE, "optim.txt"), encoding="ascii") as lines:
        for line in lines:
            if not line.startswith("#") and " : " in line:
                words = line.split(" : ")[1].split()[:ELEMENTS]
                form = ">f" if len(words[0]) == 8 else ">d"
                values = [struct.unpack(form, bytes.fromhex(word))[0] for word in words]
                yield torch.tensor(values, dtype=torch.float64)


def optimizer_lines():
    """Start and the gradients, then '|', then the parameter after steps 1, 2, 10 and 50 and the state.

    Gradients are eighths in [-2, 2), a third of them zero or repeated, as real ones are. They are
    written as signed eighths of one step a word list: compact, exact in both dtypes. Of rough
    cases they are sevenths: then products round, and it shows where they do.
    """
    starts = known_starts() if TORCH2 else None
    for name, (kind, cases) in OPTIMIZERS.items():
        for dtype in DTYPES:
            for seed, options in enumerate(cases):
                g = torch.Generator().manual_seed(200 + seed)
                start = torch.randn(ELEMENTS, generator=g, dtype=DTYPES[dtype])
                if TORCH2:  # Whose randn differs in some last bits.
                    start = next(starts).to(DTYPES[dtype])
                parameter = nn.Parameter(start)
                optimizer = kind([parameter], foreach=False,
                                 **{k: v for k, v in options.items() if k != "rough"})
                before, after = bits(parameter), []
                for step in range(1, STEPS + 1):
                    eighths = torch.randint(-16, 16, (ELEMENTS,), generator=g)
                    before += [str(n) for n in eighths.tolist()]
                    parameter.grad = eighths.to(DTYPES[dtype]) / (7 if "rough" in options else 8)
                    optimizer.step()
                    if step in (1, 2, 10, 50):
                        after += bits(parameter)
                state = optimizer.state[parameter]
                for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "sum", "square_avg",
                            "momentum_buffer", "grad_avg"):
                    if state.get(key) is not None:
                        after += [key] + bits(state[key])
                flat = " ".join(f"{k}={v!r}".replace(" ", "") for k, v in options.items())
                flat = flat.replace("betas=(", "beta1=").replace(",", " beta2=").replace(")", "")
                flat = flat.replace("True", "1")
                given = "" if TORCH2 else f"{' '.join(before)} | "
                yield f"{name} {dtype} {flat} : {given}{' '.join(after)}"


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
    if TORCH2:
        write(os.path.join(HERE, "optim_torch2.txt"), "make_optim.py",
              "optimizer dtype options : parameter, state", list(optimizer_lines()))
        return
    write(os.path.join(HERE, "optim.txt"), "make_optim.py",
          "optimizer dtype options : start, 50 gradients in eighths | parameter, state",
          [*optimizer_lines(), *clip_lines()])


main()
