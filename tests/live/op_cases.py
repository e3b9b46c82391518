"""Fresh cases of every differentiable operation, with what PyTorch makes of them.

case(name, rng) -> (line, Answer). The line's format is that of tests/golden/op_answers.h. FAMILIES maps
names to functions that draw one case; a family whose name ends in _exact draws small dyadic numbers for
which no operation rounds, so that every order of summation gives the same bits.
"""

import math

import live
import op_bounds
import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f64": torch.float64}
WORD = {torch.float32: torch.int32, torch.float64: torch.int64}


def tensor_of(words, like):
    """The tensor whose elements have these bits."""
    width = 2 ** (8 * like.element_size())
    whole = [int(w, 16) for w in words.split()]
    signed = [v - width if v >= width // 2 else v for v in whole]
    return torch.tensor(signed, dtype=WORD[like.dtype]).view(like.dtype).reshape(like.shape)


class Answer:
    """What must come back: tensors, each with None (equal bits) or how far an element may be off."""

    def __init__(self, tensors, bounds):
        self.parts = list(zip(tensors, bounds))

    def accepts(self, got):
        answers = got.split(" | ")
        if len(answers) != len(self.parts):
            return False
        return all(self._fits(words, *part) for words, part in zip(answers, self.parts))

    @staticmethod
    def _fits(words, tensor, bound):
        if bound is None:
            return words == live.bits(tensor)
        if len(words.split()) != tensor.numel():
            return False
        off = (tensor_of(words, tensor).double() - tensor.double()).abs()
        return bool((off <= bound).all())  # False for NaN.

    def __str__(self):
        """Bits, and after ~ the f64 bits of what an element may be off."""
        texts = []
        for tensor, bound in self.parts:
            limit = "" if bound is None else " ~ " + live.bits(bound.double().expand(tensor.shape))
            texts.append(live.bits(tensor) + limit)
        return " | ".join(texts)


def shape_text(shape):
    return "x".join(str(n) for n in shape) or "-"


class Draw:
    """One case being drawn."""

    def __init__(self, rng, exact):
        self.exact = exact
        self.rng = rng
        self.generator = torch.Generator()
        self.generator.manual_seed(rng.randrange(2**63))
        self.dtype_name = rng.choice(list(DTYPES))
        self.dtype = DTYPES[self.dtype_name]

    def size(self, low, high):
        return self.rng.randint(low, high)

    def values(self, *shape, scale=None):
        if self.exact:
            # Quarters up to 2 in size, without zero, whose sign depends on the order of a sum.
            whole = torch.randint(1, 9, shape, generator=self.generator)
            sign = torch.randint(0, 2, shape, generator=self.generator) * 2 - 1
            return (whole * sign).to(self.dtype) / 4
        if scale is None:
            scale = self.rng.choice([1.0, 8.0, 0.0625])
        normal = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return (normal * scale).to(self.dtype)

    def case(self, name, parameters, run, leaves, bound=None, **more):
        """`run(*leaves)` is PyTorch's operation; `bound(f64 leaves, f64 gradient, u)` as in op_bounds."""
        buffers = more.get("buffers", [])
        extras = more.get("constants", [])
        head = f"{name} {self.dtype_name} {','.join(repr(p) for p in parameters) or '-'}"
        parts = [head]
        parts += [f"x {shape_text(x.shape)} {live.bits(x)}" for x in leaves]
        for c in extras:
            integers = c.dtype == torch.int64
            words = " ".join(str(v) for v in c.flatten().tolist()) if integers else live.bits(c)
            parts.append(f"{'i' if integers else 'c'} {shape_text(c.shape)} {words}")
        parts += [f"b {shape_text(b.shape)} {live.bits(b)}" for b in buffers]
        inputs = [x.clone().requires_grad_() for x in leaves]
        y = run(*inputs)
        gradient = self.values(*y.shape)
        parts.append(f"g {shape_text(y.shape)} {live.bits(gradient)}")
        limits = [None] * (1 + len(leaves) + len(buffers))
        if bound is not None:
            wide = [x.double() for x in leaves]
            limits = bound(wide, gradient.double(), op_bounds.UNIT[self.dtype])
            limits = [None if limit is None else 2 * limit.detach() for limit in limits]
        y.backward(gradient)
        results = [y.detach()] + [x.grad for x in inputs] + more.get("moved", lambda: buffers)()
        return " ; ".join(parts), Answer(results, limits)


def rows(d):
    return d.values(d.size(1, 9), d.size(1, 17))


def element_wise(name, function, n_leaves):
    def draw(d):
        shape = (d.size(1, 6), d.size(1, 19))
        return d.case(name, [], function, [d.values(*shape) for _ in range(n_leaves)])
    return draw


def scale(d):
    factor = d.rng.choice([0.5, -3.0, 0.1, 1.0 / 3.0])
    return d.case("scale", [factor], lambda x: x * factor, [rows(d)])


def total(d):
    x = rows(d)
    bound = None if d.exact else op_bounds.of_products(torch.sum, [x.numel(), 1])
    return d.case("sum", [], torch.sum, [x], bound)


def linear(d):
    b, i, o = d.size(1, 9), d.size(1, 33), d.size(1, 17)
    leaves = [d.values(b, i), d.values(o, i)] + ([d.values(o)] if d.rng.random() < 0.7 else [])
    bound = None if d.exact else op_bounds.of_products(F.linear, [i + 1, o, b, b])
    return d.case("linear", [], F.linear, leaves, bound)


def conv2d(d):
    n, c, o = d.size(1, 3), d.size(1, 4), d.size(1, 5)
    kh, kw = d.size(1, 3), d.size(1, 3)
    stride, padding = d.size(1, 3), d.size(0, 2)
    h, w = d.size(kh, 8), d.size(kw, 8)
    leaves = [d.values(n, c, h, w), d.values(o, c, kh, kw)]
    if d.rng.random() < 0.7:
        leaves.append(d.values(o))

    def run(*leaves):
        return F.conv2d(*leaves, stride=stride, padding=padding)

    places = run(*leaves).numel() // o
    bound = op_bounds.of_products(run, [c * kh * kw + 1, o * kh * kw, places, places])
    return d.case("conv2d", [stride, padding], run, leaves, None if d.exact else bound)


def pool(name, function):
    def draw(d):
        kh, kw = (d.rng.choice([1, 2, 4]), 2) if d.exact else (d.size(1, 4), d.size(1, 4))
        stride, padding = d.size(1, 3), d.size(0, min(kh, kw) // 2)
        x = d.values(d.size(1, 3), d.size(1, 3), d.size(kh, 9), d.size(kw, 9))
        return d.case(name, [kh, kw, stride, padding],
                      lambda x: function(x, (kh, kw), stride, padding), [x])
    return draw


def global_pool(d):
    h, w = (d.rng.choice([1, 2, 4]), d.rng.choice([2, 4])) if d.exact else (d.size(1, 7), d.size(1, 7))
    bound = op_bounds.of_products(lambda x: F.adaptive_avg_pool2d(x, 1), [h * w + 1, 1])
    return d.case("global_avg_pool2d", [], lambda x: F.adaptive_avg_pool2d(x, 1),
                  [d.values(d.size(1, 3), d.size(1, 4), h, w)], None if d.exact else bound)


def flatten(d):
    return d.case("flatten", [], lambda x: x.flatten(1), [d.values(d.size(1, 3), 2, 3, d.size(1, 4))])


def smooth(name, parameters, function, bound):
    def draw(d):
        return d.case(name, parameters, function, [rows(d)], bound)
    return draw


def loss(name, function, power):
    def draw(d):
        shape = (d.rng.choice([1, 2, 4, 8]), 4) if d.exact else (d.size(1, 9), d.size(1, 7))
        target = d.values(*shape)
        bound = None if d.exact else op_bounds.mean_of_differences(target, power)
        return d.case(name, [math.prod(shape)], lambda x: function(x, target), [d.values(*shape)],
                      bound, constants=[target])
    return draw


def cross_entropy(d):
    b, c = d.size(1, 9), d.size(1, 12)
    labels = torch.randint(0, c, (b,), generator=d.generator)
    return d.case("cross_entropy", [b], lambda x: F.cross_entropy(x, labels), [d.values(b, c)],
                  op_bounds.cross_entropy(labels), constants=[labels])


def weighted_cross_entropy(d):
    b, c = d.size(1, 9), d.size(1, 12)
    labels = torch.randint(0, c, (b,), generator=d.generator)
    weights = d.values(c).abs() + 2.0**-4
    return d.case("weighted_cross_entropy", [], lambda x: F.cross_entropy(x, labels, weights), [d.values(b, c)],
                  op_bounds.weighted_cross_entropy(labels, weights), constants=[labels, weights])


def layer_norm(d):
    r, width = d.size(1, 7), d.size(2, 33)
    leaves = [d.values(r, width), d.values(width), d.values(width)]
    return d.case("layer_norm", [1e-5], lambda x, w, b: F.layer_norm(x, (width,), w, b), leaves,
                  op_bounds.layer_norm(1e-5))


def batch_norm(training, image):
    def draw(d):
        c = d.size(1, 6)
        shape = (d.size(1, 3), c, d.size(2, 4), d.size(1, 4)) if image else (d.size(2, 17), c)
        momentum = d.rng.choice([0.1, 0.3, 1.0])
        affine = not training or d.rng.random() < 0.8
        leaves = [d.values(*shape)] + ([d.values(c), d.values(c)] if affine else [])
        buffers = [d.values(c, scale=1.0), d.values(c, scale=1.0).abs() + 0.25]
        buffers = buffers if not training or d.rng.random() < 0.8 else []
        moved = [b.clone() for b in buffers]
        bound = (op_bounds.batch_norm_training(1e-5, momentum, buffers) if training else
                 op_bounds.batch_norm_evaluation(1e-5, buffers))

        def run(x, w=None, b=None):
            return F.batch_norm(x, *(moved or (None, None)), w, b, training, momentum, 1e-5)

        return d.case("batch_norm", [momentum, 1e-5, int(training)], run, leaves, bound,
                      buffers=buffers, moved=lambda: moved)
    return draw


def running_statistics(d):
    """Two values per channel: mean and unbiased variance of quarters do not round; nor does momentum 1/2."""
    c = d.size(1, 8)
    x = d.values(2, c)
    buffers = [d.values(c), d.values(c).abs()]
    moved = [b.clone() for b in buffers]

    def everything_goes(leaves, grad, u):
        loose = op_bounds.batch_norm_training(1e-5, 0.5, [])(leaves, grad, u)
        return loose + [None, None]

    return d.case("batch_norm", [0.5, 1e-5, 1],
                  lambda x: F.batch_norm(x, *moved, None, None, True, 0.5, 1e-5), [x],
                  everything_goes, buffers=buffers, moved=lambda: moved)


def embedding(d):
    v, width, r = d.size(1, 7), d.size(1, 9), d.size(1, 12)
    indices = torch.randint(0, v, (r,), generator=d.generator)
    padding = d.rng.choice([-1, d.rng.randrange(v)])
    return d.case("embedding", [padding],
                  lambda t: F.embedding(indices, t, padding_idx=None if padding < 0 else padding),
                  [d.values(v, width)], constants=[indices])


def dropout(d):
    p, seed = d.rng.choice([0.1, 0.5, 0.25, 0.9]), d.rng.randrange(2**31)
    x = rows(d)

    def run(x):
        torch.manual_seed(seed)
        return F.dropout(x, p)

    return d.case("dropout", [p, seed], run, [x])


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def joined(name, function, other_size):
    """Two to six leaves along a dimension, in which cat's may have different sizes."""
    def draw(d):
        shape = [d.size(1, 4) for _ in range(d.size(1, 3))]
        dim = d.rng.randrange(len(shape) + (0 if other_size else 1))
        leaves = []
        for _ in range(d.size(2, 6)):
            if other_size:
                shape[dim] = d.size(1, 4)
            leaves.append(d.values(*shape))
        return d.case(name, [dim], lambda *xs: function(xs, dim), leaves)
    return draw


def narrow(d):
    shape = [d.size(1, 6) for _ in range(d.size(1, 4))]
    dim = d.rng.randrange(len(shape))
    first = d.rng.randrange(shape[dim])
    n = d.size(1, shape[dim] - first)
    return d.case("slice", [dim, first, n], lambda x: torch.narrow(x, dim, first, n),
                  [d.values(*shape)])


def positive(name, function, bound=None):
    def draw(d):
        return d.case(name, [], function, [rows(d).abs() + 2.0**-10], bound)
    return draw


def some_shape(d):
    return [d.size(1, 5) for _ in range(d.size(1, 4))]


def along(name, function, n_roundings):
    """The gradient of each is a copy, or a quotient that both round: equal bits."""
    def draw(d):
        shape = some_shape(d)
        dim, keep = d.rng.randrange(len(shape)), d.rng.randrange(2)

        def run(x):
            return function(x, dim, keepdim=bool(keep))

        def bound(leaves, grad, u):
            return [op_bounds.of_products(run, [shape[dim] + n_roundings, 1])(leaves, grad, u)[0], None]

        return d.case(name, [dim, keep], run, [d.values(*shape)], None if d.exact else bound)
    return draw


def mean(d):
    x = rows(d)

    def bound(leaves, grad, u):
        return [op_bounds.of_products(torch.mean, [x.numel() + 1, 1])(leaves, grad, u)[0], None]

    return d.case("mean", [], torch.mean, [x], bound)


def narrower(d, shape):
    """A shape that is broadcast to `shape`, and how many elements meet in one of its."""
    sizes = [1 if d.rng.random() < 0.5 else n for n in shape]
    missing = d.rng.randrange(len(shape) + 1)
    sizes = sizes[missing:]
    return sizes, math.prod(shape) // math.prod(sizes)


def broadcast(d):
    shape = some_shape(d)
    sizes, n = narrower(d, shape)

    def run(x):
        return torch.broadcast_to(x, shape)

    def bound(leaves, grad, u):
        return [None, op_bounds.of_products(run, [1, n])(leaves, grad, u)[1]]

    return d.case("expand", [], run, [d.values(*sizes)], None if d.exact else bound)


def of_two_shapes(name, function, n_roundings):
    def draw(d):
        shape = some_shape(d)
        other, n = narrower(d, shape)
        leaves = [d.values(*shape), d.values(*other)]
        if d.rng.random() < 0.5:
            leaves.reverse()
        counts = [1, *(n + n_roundings if list(x.shape) == other else n_roundings for x in leaves)]

        def bound(leaves, grad, u):
            return [None, *op_bounds.of_products(function, counts)(leaves, grad, u)[1:]]

        return d.case(name, [], function, leaves, None if d.exact else bound)
    return draw


def div_scalar(d):
    divisor = d.rng.choice([3.0, 7.0, 0.1, -2.0])
    return d.case("div_scalar", [divisor], lambda x: x / divisor, [rows(d)])


def with_number(name, function):
    def draw(d):
        number = d.rng.choice([3.0, 7.0, 0.1, -2.0, 1.0 / 3.0])
        return d.case(name, [number], lambda x: function(x, number), [rows(d)])
    return draw


def matmul(d):
    m, k, n = d.size(1, 9), d.size(1, 33), d.size(1, 17)
    bound = None if d.exact else op_bounds.of_products(torch.mm, [k, n, m])
    return d.case("matmul", [], torch.mm, [d.values(m, k), d.values(k, n)], bound)


def formula(a, b):
    difference = a - b
    return -(difference * a + difference / b)


FAMILIES = {
    "add": element_wise("add", torch.add, 2),
    "sub": element_wise("sub", torch.sub, 2),
    "mul": element_wise("mul", torch.mul, 2),
    "scale": scale,
    "sum": total,
    "sum_exact": total,
    "linear": linear,
    "linear_exact": linear,
    "conv2d": conv2d,
    "conv2d_exact": conv2d,
    "max_pool2d": pool("max_pool2d", F.max_pool2d),
    "max_pool2d_exact": pool("max_pool2d", F.max_pool2d),  # Many equal values: the first must win.
    "avg_pool2d": pool("avg_pool2d", F.avg_pool2d),
    "avg_pool2d_exact": pool("avg_pool2d", F.avg_pool2d),
    "global_avg_pool2d": global_pool,
    "global_avg_pool2d_exact": global_pool,
    "flatten": flatten,
    "relu": element_wise("relu", torch.relu, 1),
    "tanh": smooth("tanh", [], torch.tanh, op_bounds.tanh),
    "sigmoid": smooth("sigmoid", [], torch.sigmoid, op_bounds.sigmoid),
    "gelu_erf": smooth("gelu", [0], F.gelu, op_bounds.gelu_erf),
    "gelu_tanh": smooth("gelu", [1], tanh_gelu, op_bounds.gelu_tanh),
    "softmax": smooth("softmax", [], lambda x: torch.softmax(x, -1), op_bounds.softmax),
    "log_softmax": smooth("log_softmax", [], lambda x: torch.log_softmax(x, -1),
                          op_bounds.log_softmax),
    "mse": loss("mse", F.mse_loss, 2),
    "mse_exact": loss("mse", F.mse_loss, 2),
    "l1": loss("l1", F.l1_loss, 1),
    "l1_exact": loss("l1", F.l1_loss, 1),
    "cross_entropy": cross_entropy,
    "layer_norm": layer_norm,
    "batch_norm_1d": batch_norm(True, False),
    "batch_norm_2d": batch_norm(True, True),
    "batch_norm_1d_evaluation": batch_norm(False, False),
    "batch_norm_2d_evaluation": batch_norm(False, True),
    "batch_norm_running_exact": running_statistics,
    "embedding": embedding,
    "dropout": dropout,
}

# The cases of 16 bits and of autocast leave them out.
FULL_WIDTH = {
    "cat": joined("cat", torch.cat, True),
    "stack": joined("stack", torch.stack, False),
    "slice": narrow,
    "clone": element_wise("clone", torch.clone, 1),
    "div": element_wise("div", torch.div, 2),
    "div_scalar": div_scalar,
    "exp": smooth("exp", [], torch.exp, op_bounds.exp),
    "log": positive("log", torch.log, op_bounds.log),
    "sqrt": positive("sqrt", torch.sqrt),
    "mean": mean,
    "sum_dim": along("sum_dim", torch.sum, 0),
    "sum_dim_exact": along("sum_dim", torch.sum, 0),
    "mean_dim": along("mean_dim", torch.mean, 1),
    "expand": broadcast,
    "expand_exact": broadcast,
    "add_broadcast": of_two_shapes("add", torch.add, 1),
    "add_broadcast_exact": of_two_shapes("add", torch.add, 1),
    "mul_broadcast": of_two_shapes("mul", torch.mul, 1),
    "weighted_cross_entropy": weighted_cross_entropy,
    "matmul": matmul,
    "matmul_exact": matmul,
    "plus_number": with_number("plus_number", lambda x, number: x + number),
    "number_plus": with_number("number_plus", lambda x, number: number + x),
    "minus_number": with_number("minus_number", lambda x, number: x - number),
    "number_minus": with_number("number_minus", lambda x, number: number - x),
    "times_number": with_number("times_number", lambda x, number: x * number),
    "number_times": with_number("number_times", lambda x, number: number * x),
    "over_number": with_number("over_number", lambda x, number: x / number),
    "number_over": with_number("number_over", lambda x, number: number / x),
    "formula": element_wise("formula", formula, 2),
}


def case(name, rng):
    return {**FAMILIES, **FULL_WIDTH}[name](Draw(rng, name.endswith("_exact")))
