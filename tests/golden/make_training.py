"""Writes training.txt: initial weights, exact forward and backward passes, optimizer steps, hook order."""

import os
import struct

import torch
from torch import nn

from golden_format import write

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"f32": torch.float32, "f64": torch.float64}


def bits(tensor):
    """Elements as hex words, row major."""
    flat = tensor.detach().reshape(-1).tolist()
    if tensor.dtype == torch.float32:
        return [struct.pack(">f", value).hex() for value in flat]
    return [struct.pack(">d", value).hex() for value in flat]


def all_bits(tensors):
    return " ".join(word for tensor in tensors for word in bits(tensor))


def linear_lines():
    cases = [(0, 1, 1), (1, 16, 32), (123, 3, 2), (7, 20, 5), (2**40 + 3, 1, 9)]
    for dtype in DTYPES:
        for seed, n_in, n_out in cases:
            for bias in (True, False):
                torch.manual_seed(seed)
                layer = nn.Linear(n_in, n_out, bias=bias, dtype=DTYPES[dtype])
                yield f"linear {dtype} {seed} {n_in} {n_out} {int(bias)} : " + all_bits(
                    layer.parameters())


def mlp(widths, dtype):
    layers = []
    for n_in, n_out in zip(widths, widths[1:]):
        layers += [nn.Linear(n_in, n_out, dtype=dtype), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def mlp_lines():
    for seed, widths in [(3, (16, 16, 1)), (11, (5, 4, 3, 2))]:
        torch.manual_seed(seed)
        model = mlp(widths, torch.float32)
        yield f"mlp f32 {seed} {' '.join(map(str, widths))} : " + all_bits(model.parameters())


def grid(shape, generator, dtype):
    """Points of a grid in [-1, 1] so coarse that a pass through an MLP does not round."""
    largest = 2 if dtype == torch.float32 else 8
    return torch.randint(-largest, largest + 1, shape, generator=generator).to(dtype) / largest


def exact_lines():
    """Inputs, then '|', then output, loss, gradients of all parameters, gradient of the input."""
    widths_batches = [((2, 1), 1), ((8, 8, 2), 4), ((16, 4, 1), 8), ((4, 8, 8, 4), 2)]
    losses = {"mse": nn.MSELoss, "l1": nn.L1Loss}
    for dtype in DTYPES:
        for loss in losses:
            for reduction in ("mean", "sum"):
                for seed, (widths, batch) in enumerate(widths_batches):
                    g = torch.Generator().manual_seed(seed)
                    model = mlp(widths, DTYPES[dtype])
                    with torch.no_grad():
                        for parameter in model.parameters():
                            parameter.copy_(grid(parameter.shape, g, parameter.dtype))
                    x = grid((batch, widths[0]), g, DTYPES[dtype]).requires_grad_()
                    target = grid((batch, widths[-1]), g, DTYPES[dtype])
                    y = model(x)
                    value = losses[loss](reduction=reduction)(y, target)
                    value.backward()
                    before = all_bits([x, target, *model.parameters()])
                    after = all_bits(
                        [y, value, *(p.grad for p in model.parameters()), x.grad])
                    shape = f"{batch} {' '.join(map(str, widths))}"
                    yield f"exact {dtype} {loss} {reduction} {shape} : {before} | {after}"


def sgd_lines():
    """Start and each step's gradient, then '|', then parameter after each step, then momentum."""
    cases = [
        dict(lr=0.1),
        dict(lr=0.1, weight_decay=0.01),
        dict(lr=0.1, momentum=0.9),
        dict(lr=0.3, momentum=0.9, dampening=0.25, weight_decay=0.003),
        dict(lr=0.07, momentum=0.8, nesterov=True, weight_decay=0.1),
        dict(lr=0.1, momentum=0.9, maximize=True),
        dict(lr=0.1, weight_decay=0.2, maximize=True),
    ]
    names = ["lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"]
    for dtype in DTYPES:
        for seed, options in enumerate(cases):
            g = torch.Generator().manual_seed(100 + seed)
            parameter = nn.Parameter(torch.randn(19, generator=g, dtype=DTYPES[dtype]))
            optimizer = torch.optim.SGD([parameter], foreach=False, **options)
            before = bits(parameter)
            after = []
            for _ in range(3):
                parameter.grad = torch.randn(19, generator=g, dtype=DTYPES[dtype])
                before += bits(parameter.grad)
                optimizer.step()
                after += bits(parameter)
            momentum = optimizer.state[parameter].get("momentum_buffer")
            if momentum is not None:
                after += bits(momentum)
            arguments = " ".join(repr(float(options.get(name, 0))) for name in names)
            yield f"sgd {dtype} {arguments} : {' '.join(before)} | {' '.join(after)}"


class TwoHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(3, 4)
        self.head_a = nn.Linear(4, 2)
        self.head_b = nn.Linear(4, 2)

    def forward(self, x):
        features = torch.relu(self.trunk(x))
        return self.head_a(features) + self.head_b(features)


def ready_order(model, x):
    """Names of parameters in the order in which their accumulators ran."""
    order, keep = [], []
    for name, parameter in model.named_parameters():
        accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        accumulator.register_hook(lambda *_, name=name: order.append(name))
        keep.append(accumulator)
    model(x).sum().backward()
    return " ".join(order)


def order_lines():
    yield "order mlp : " + ready_order(mlp((3, 4, 4, 2), torch.float32), torch.ones(2, 3))
    yield "order mlp_input_grad : " + ready_order(
        mlp((3, 4, 2), torch.float32), torch.ones(2, 3, requires_grad=True))
    yield "order two_head : " + ready_order(TwoHead(), torch.ones(2, 3))


def main():
    lines = [*linear_lines(), *mlp_lines(), *exact_lines(), *sgd_lines(), *order_lines()]
    write(os.path.join(HERE, "training.txt"), "make_training.py",
          "linear, mlp: initial weights | exact: one backward | sgd | order of ready gradients",
          lines)


main()
