#!/usr/bin/env python3
"""Writes kernels.txt and sgd.txt: what PyTorch's element-wise kernels and its SGD compute, in bits.

Needs PyTorch 1.13 on a machine with AVX2, where those kernels fuse multiply and add.
    kernels.txt   OPERATION dtype scalar a|b|out : hex words
    sgd.txt       CASE dtype lr momentum dampening weight_decay nesterov maximize param|grad|after : ...
"""
import pathlib
import struct

import torch

HERE = pathlib.Path(__file__).parent
KINDS = {"f32": (torch.float32, "<f", "<I"), "f64": (torch.float64, "<d", "<Q")}
N = 37  # A few vectors and a tail.


def bits(tensor, kind):
    _, value, word = KINDS[kind]
    return " ".join(
        "%x" % struct.unpack(word, struct.pack(value, x))[0] for x in tensor.flatten().tolist()
    )


def write(name, lines):
    header = f"# made by tests/golden/make_kernels.py with torch {torch.__version__}"
    (HERE / name).write_text("\n".join([header] + lines) + "\n")


def binary_cases(kind):
    dtype = KINDS[kind][0]
    a, b = torch.randn(N, dtype=dtype), torch.randn(N, dtype=dtype)
    y = torch.tanh(b)
    b[3] = a[3]  # A tie for the L1 gradient.
    grad_out = torch.tensor(0.7, dtype=dtype)
    x = a.clone().requires_grad_()
    torch.nn.functional.l1_loss(x, b).backward(grad_out)
    yield "add_scaled", 0.37, a, b, torch.add(a, b, alpha=0.37)
    yield "scale", 1.1, a, b, a * 1.1
    yield "div_scalar", 3.0, a, b, a / 3.0
    yield "average", 7.0, a, b, a * (1.0 / 7.0)
    yield "mul", 0.0, a, b, a * b
    yield "div", 0.0, a, b, a / b
    yield "relu", 0.0, a, b, torch.relu(a)
    yield "relu_backward", 0.0, a, y, torch.ops.aten.threshold_backward(a, y, 0)
    yield "tanh_backward", 0.0, a, y, torch.ops.aten.tanh_backward(a, y)
    yield "mse_backward", 0.7, a, b, torch.ops.aten.mse_loss_backward(grad_out, a, b, 1)
    yield "l1_backward", 0.7, a, b, x.grad


def write_kernels():
    torch.manual_seed(1)
    lines = []
    for kind in KINDS:
        for name, scalar, a, b, out in binary_cases(kind):
            for role, tensor in (("a", a), ("b", b), ("out", out)):
                lines.append(f"{name} {kind} {scalar!r} {role} : {bits(tensor, kind)}")
    write("kernels.txt", lines)


SGD = [
    dict(lr=0.1),
    dict(lr=0.1, weight_decay=0.01),
    dict(lr=0.05, momentum=0.9),
    dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.02),
    dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.001),
    dict(lr=0.03, momentum=0.7, maximize=True),
]


def write_sgd():
    torch.manual_seed(2)
    lines = []
    for kind in KINDS:
        for options in SGD:
            full = dict(lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0)
            full.update({key: value for key, value in options.items() if key in full})
            numbers = " ".join(repr(full[key]) for key in full)
            flags = f"{int(options.get('nesterov', False))} {int(options.get('maximize', False))}"
            key = f"sgd {kind} {numbers} {flags}"
            param = torch.randn(N, dtype=KINDS[kind][0]).requires_grad_()
            lines.append(f"{key} param : {bits(param, kind)}")
            optimizer = torch.optim.SGD([param], **options)
            for _ in range(4):
                param.grad = torch.randn(N, dtype=KINDS[kind][0])
                lines.append(f"{key} grad : {bits(param.grad, kind)}")
                optimizer.step()
                lines.append(f"{key} after : {bits(param, kind)}")
    write("sgd.txt", lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_kernels()
    write_sgd()
