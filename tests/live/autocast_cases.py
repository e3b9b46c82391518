"""The cases of op_cases.py under torch.autocast("cpu"), and attention, as PyTorch computes them.

Leaves are f32 or 16-bit, as they come to an operation in a model. An answer is judged by what its
operation computes in:

- 16 bits (linear, convolution, and whatever is left alone and was given 16 bits): as in op16_cases.py, on leaves
  rounded to 16 bits. A gradient of an f32 leaf is a 16-bit one, converted.
- f32 (losses; norms of 16-bit rows with f32 parameters; sums of f32 and 16 bits; what is left alone and was given
  f32): with the exact value e (f64) and the bound B of an evaluation in f32, between e - B and e + B, both rounded
  to the dtype of the result. Attention computes in f32, too, on leaves rounded to 16 bits. Layer norm adds the
  gradients of f32 parameters up in 16 bits if its rows are 16-bit: those have the bound of a 16-bit evaluation.

PyTorch's own answers are held against the limits of losses, norms and sums, too.
"""

import math

import live
import op16_cases  # Chooses PyTorch's instruction set before anything imports PyTorch.
import op_bounds
import op_cases
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attention_balls

NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
LOWERED = ("linear", "conv2d", "attention", "self_attention")
RAISED = ("mse", "l1", "cross_entropy")
MIXED = ("layer_norm", "batch_norm")
PROMOTED = ("add", "sub", "mul")


class Answer(op16_cases.Answer):
    """As op16_cases.Answer, for tensors of several dtypes, some of which hold 16-bit values in f32."""

    @staticmethod
    def _fits(text, tensor, limit):
        if limit is None or text == live.bits(tensor):
            return text == live.bits(tensor)
        answer = tensor_of(text, tensor)
        return answer is not None and within(answer, tensor, limit)


def tensor_of(text, like):
    words = text.split()
    if len(words) != like.numel() or any(len(w) != 2 * like.element_size() for w in words):
        return None  # Of another shape or dtype.
    if like.dtype == torch.float32:
        return op_cases.tensor_of(text, like)
    signed = [int(w, 16) - 65536 if int(w, 16) >= 32768 else int(w, 16) for w in words]
    return torch.tensor(signed, dtype=torch.int16).view(like.dtype).reshape(like.shape)


def within(answer, tensor, limit):
    if isinstance(limit, tuple):
        return bool(((answer >= limit[0]) & (answer <= limit[1])).all())  # False for NaN.
    return bool(((answer.double() - tensor.double()).abs() <= limit).all())


class Draw(op16_cases.Draw):
    """One case being drawn: `low` is autocast's dtype, values are f32."""

    def __init__(self, rng, exact):
        super().__init__(rng, exact)
        self.low_name, self.low = self.dtype_name, self.dtype
        self.dtype = torch.float32

    def given(self, name, leaves):
        """The leaves in the dtypes in which the operation gets them."""
        if name in MIXED or name in RAISED:
            kinds = [self.rng.choice([self.low, torch.float32])] + [torch.float32] * len(leaves)
        elif name in LOWERED or name in PROMOTED:
            kinds = [self.rng.choice([self.low, torch.float32]) for _ in leaves]
        else:
            kinds = [self.rng.choice([self.low, torch.float32])] * len(leaves)
        return [x.to(kind) for x, kind in zip(leaves, kinds)]

    def computes_in(self, name, leaves, buffers):
        if name in ("linear", "conv2d"):
            return self.low
        bare = name in MIXED and len(leaves) == 1 and not buffers
        as_given = bare or name not in RAISED + MIXED + LOWERED
        narrow = all(x.dtype == self.low for x in leaves)
        return self.low if as_given and narrow else torch.float32

    def case(self, name, parameters, run, leaves, bound=None, **more):
        leaves = self.given(name, leaves)
        buffers = more.get("buffers", [])
        parts = [f"{name} autocast:{self.low_name} {','.join(repr(p) for p in parameters) or '-'}"]
        parts += [self.part("x", x) for x in leaves]
        parts += [self.part("c", c) for c in more.get("constants", [])]
        parts += [self.part("b", b) for b in buffers]
        inputs = [x.clone().requires_grad_() for x in leaves]
        with torch.autocast("cpu", dtype=self.low):
            y = run(*inputs)
        gradient = self.values(*y.shape).to(y.dtype)
        parts.append(self.part("g", gradient))
        y.backward(gradient)
        results = [y.detach()] + [x.grad for x in inputs] + more.get("moved", lambda: buffers)()
        limits = [None] * len(results)
        if bound is not None:
            held = more["moved"]() if buffers else []
            limits = self.judge(name, run, leaves, gradient, bound, results, (buffers, held))
        in_f32 = name in MIXED + RAISED + PROMOTED
        for result, limit in zip(results, limits if in_f32 else []):
            assert limit is None or within(result, result, limit), f"PyTorch is outside: {parts[0]}"
        return " ; ".join(parts), Answer(results, limits)

    @staticmethod
    def part(kind, tensor):
        shape = op_cases.shape_text(tensor.shape)
        if tensor.dtype == torch.int64:
            return f"i {shape} {' '.join(str(v) for v in tensor.flatten().tolist())}"
        return f"{kind}.{NAMES[tensor.dtype]} {shape} {live.bits(tensor)}"

    def judge(self, name, run, leaves, gradient, bound, results, buffers):
        if name in ("attention", "self_attention"):
            return self.around(bound([x.to(self.low) for x in leaves], gradient), results, self.low)
        if self.computes_in(name, leaves, buffers[0]) == self.low:
            return self.limits_low(name, run, [x.to(self.low) for x in leaves], gradient, bound, results)
        wide = [x.double() for x in leaves]
        away = bound(wide, gradient.double(), op16_cases.F32)
        if name in ("mse", "l1"):  # The target is f32, which f64 leaves do not go with.
            return [None if off is None else 2 * off.detach() for off in away]
        exact = self.exact_with_buffers(run, wide, gradient, *buffers)
        limits = self.around([None if off is None else (e, off.detach()) for e, off in zip(exact, away)],
                             results, None)
        if name == "layer_norm" and leaves[0].dtype == self.low:
            # The parameters' gradients add up in 16 bits, row by row.
            coarse = bound(wide, gradient.double(), op16_cases.UNIT[self.low])
            limits[2:] = [2 * off.detach() + 4 * op16_cases.TINY[self.low] for off in coarse[2:]]
        return limits

    def exact_with_buffers(self, run, wide, gradient, before, held):
        """`run` writes to the tensors in the list `held`: to f64 ones, this time."""
        after = list(held)
        held[:] = [b.double() for b in before]
        exact = self.exact_values(run, wide, gradient) + list(held)
        held[:] = after
        return exact

    def limits_low(self, name, run, leaves, gradient, bound, results):
        self.dtype = self.low
        narrow = [r.to(self.low) for r in results]
        limits = self.limits(name, run, leaves, gradient, bound, narrow)
        self.dtype = torch.float32
        return limits

    @staticmethod
    def around(balls, results, rounded_to):
        """(centre, radius) as limits, which a rounding to the result's dtype, or another, follows."""
        limits = []
        for ball, result in zip(balls, results):
            dtype = rounded_to or result.dtype
            limits.append(None if ball is None else
                          ((ball[0] - ball[1]).to(dtype), (ball[0] + ball[1]).to(dtype)))
        return limits


def attend(q, k, v, causal):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def attention(d):
    n, t, width, causal = d.size(1, 3), d.size(1, 6), d.rng.choice([1, 3, 4, 8]), d.rng.random() < 0.6
    s = t if causal else d.size(1, 6)

    def bound(leaves, grad):
        return attention_balls.balls(leaves, grad, causal)

    leaves = [d.values(n, rows, width, scale=1.0) for rows in (t, s, s)]
    return d.case("attention", [int(causal)], lambda q, k, v: attend(q, k, v, causal), leaves, bound)


def self_attention(d):
    b, h, t, width = d.size(1, 2), d.size(1, 3), d.size(1, 5), d.size(1, 4)
    causal = d.rng.random() < 0.6

    def heads(qkv):  # (3, B * h, T, D)
        return qkv.view(b, t, 3, h, width).permute(2, 0, 3, 1, 4).reshape(3, b * h, t, width)

    def rows(y):
        return y.view(b, h, t, width).transpose(1, 2).reshape(b * t, h * width)

    def bound(leaves, grad):
        folded = grad.view(b, t, h, width).transpose(1, 2).reshape(b * h, t, width)
        y, *grads = attention_balls.balls(list(heads(leaves[0])), folded, causal)
        packed = [torch.stack(p).view(3, b, h, t, width).permute(1, 3, 0, 2, 4)
                  .reshape(b * t, 3 * h * width) for p in zip(*grads)]
        return [(rows(y[0]), rows(y[1])), tuple(packed)]

    return d.case("self_attention", [b, h, int(causal)], lambda qkv: rows(attend(*heads(qkv), causal)),
                  [d.values(b * t, 3 * h * width, scale=1.0)], bound)


def loss(name, function, power):
    def draw(d):
        shape = (d.rng.choice([1, 2, 4, 8]), 4) if d.exact else (d.size(1, 9), d.size(1, 7))
        target = d.values(*shape).to(d.rng.choice([d.low, torch.float32]))
        bound = None if d.exact else op_bounds.mean_of_differences(target, power)
        return d.case(name, [math.prod(shape)], lambda x: function(x, target), [d.values(*shape)], bound,
                      constants=[target])
    return draw


FAMILIES = dict(op_cases.FAMILIES, attention=attention, self_attention=self_attention)
for made, function, power in (("mse", F.mse_loss, 2), ("l1", F.l1_loss, 1)):
    FAMILIES[made] = FAMILIES[made + "_exact"] = loss(made, function, power)


def case(name, rng):
    torch.set_num_threads(1)
    torch.backends.mkldnn.set_flags(False)
    return FAMILIES[name](Draw(rng, name.endswith("_exact")))
