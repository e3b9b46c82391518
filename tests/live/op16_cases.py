"""The cases of op_cases.py in f16 and bf16, as PyTorch computes them on AVX2 with one thread and without oneDNN.

16-bit operations compute in f32 and round each result once, some round on the way, too. So an answer is
judged in one of three ways:

- EQUAL: bits. All that is element-wise without an elementary function, all that moves elements, and, in the
  families that end in _exact, every sum: in f32 such a sum has no rounding.
- within an interval: results that round once, at their end. With the exact value e (f64) and the bound B of an
  evaluation in f32 (op_bounds.py with f32's unit), the answer lies between round(e - B) and round(e + B): it
  differs from PyTorch's only where B reaches over a rounding boundary.
- within a bound: results with 16-bit roundings on the way (STAGED). A rounding of either kind errs by at most
  the 16-bit unit, so op_bounds.py with that unit holds for either evaluation.
"""

import os

os.environ["ATEN_CPU_CAPABILITY"] = "avx2"  # Read as PyTorch is imported.

import live
import op_bounds
import op_cases
import torch

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
UNIT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# Half the distance of subnormal numbers: what a rounding errs by near zero.
TINY = {torch.float16: 2.0**-25, torch.bfloat16: 2.0**-134}
F32 = 2.0**-24

# Which parts (0: the result, then the leaves' gradients, then buffers) have 16-bit roundings on the way.
ALL = range(8)
STAGED = {
    "conv2d": (1, 2),  # Columns are stored before they are added; weights round after every image.
    "tanh": (1,), "sigmoid": (1,), "softmax": (1,), "log_softmax": (0, 1), "cross_entropy": ALL,
    "mse": ALL, "l1": ALL, "layer_norm": (1, 2, 3), "batch_norm": ALL,
}


def words(tensor):
    """The tensor's elements as integers in the order of their values."""
    bits = tensor.contiguous().view(torch.int16).to(torch.int32)
    return torch.where(bits >= 0, bits, -(bits & 0x7FFF))


class Answer:
    """What must come back: tensors, each with None (equal bits), (low, high) or how far off one may be."""

    def __init__(self, tensors, limits):
        self.parts = list(zip(tensors, limits))

    def accepts(self, got):
        answers = got.split(" | ")
        return len(answers) == len(self.parts) and all(
            self._fits(text, *part) for text, part in zip(answers, self.parts))

    @staticmethod
    def _fits(text, tensor, limit):
        if limit is None or text == live.bits(tensor):
            return text == live.bits(tensor)
        if len(text.split()) != tensor.numel():
            return False
        whole = [int(w, 16) for w in text.split()]
        signed = torch.tensor([v - 65536 if v >= 32768 else v for v in whole], dtype=torch.int16)
        answer = signed.view(tensor.dtype).reshape(tensor.shape)
        if isinstance(limit, tuple):
            return bool(((answer >= limit[0]) & (answer <= limit[1])).all())  # False for NaN.
        return bool(((answer.double() - tensor.double()).abs() <= limit).all())

    def __str__(self):
        """Bits, and after ~ the f64 bits of what an element may be off."""
        texts = []
        for tensor, limit in self.parts:
            if limit is None:
                texts.append(live.bits(tensor))
            else:
                wide = tensor.double()
                low, high = (t.double() for t in limit) if isinstance(limit, tuple) else (
                    wide - limit, wide + limit)
                off = torch.maximum(high - wide, wide - low).expand(tensor.shape)
                texts.append(live.bits(tensor) + " ~ " + live.bits(off))
        return " | ".join(texts)


class Draw(op_cases.Draw):
    """One case being drawn."""

    def __init__(self, rng, exact):
        super().__init__(rng, exact)
        self.dtype_name = rng.choice(list(DTYPES))
        self.dtype = DTYPES[self.dtype_name]

    def case(self, name, parameters, run, leaves, bound=None, **more):
        buffers = more.get("buffers", [])
        parts = [f"{name} {self.dtype_name} {','.join(repr(p) for p in parameters) or '-'}"]
        parts += [f"x {op_cases.shape_text(x.shape)} {live.bits(x)}" for x in leaves]
        for c in more.get("constants", []):
            integers = c.dtype == torch.int64
            text = " ".join(str(v) for v in c.flatten().tolist()) if integers else live.bits(c)
            parts.append(f"{'i' if integers else 'c'} {op_cases.shape_text(c.shape)} {text}")
        parts += [f"b {op_cases.shape_text(b.shape)} {live.bits(b)}" for b in buffers]
        inputs = [x.clone().requires_grad_() for x in leaves]
        y = run(*inputs)
        gradient = self.values(*y.shape)
        parts.append(f"g {op_cases.shape_text(y.shape)} {live.bits(gradient)}")
        y.backward(gradient)
        results = [y.detach()] + [x.grad for x in inputs] + more.get("moved", lambda: buffers)()
        limits = [None] * len(results)
        if bound is not None:
            limits = self.limits(name, run, leaves, gradient, bound, results)
        return " ; ".join(parts), Answer(results, limits)

    def limits(self, name, run, leaves, gradient, bound, results):
        wide = [x.double() for x in leaves]
        staged = STAGED.get(name, ())
        exact = self.exact_values(run, wide, gradient) if 0 not in staged or len(staged) < 2 else []
        fine = bound(wide, gradient.double(), F32)
        coarse = bound(wide, gradient.double(), UNIT[self.dtype])
        limits = []
        for i, result in enumerate(results):
            if fine[i] is None:
                limits.append(None)
            elif i in staged:
                limits.append(2 * coarse[i].detach() + 4 * TINY[self.dtype])
            else:
                away = fine[i].detach()
                limits.append(((exact[i] - away).to(result.dtype), (exact[i] + away).to(result.dtype)))
        return limits

    @staticmethod
    def exact_values(run, wide, gradient):
        inputs = [x.clone().requires_grad_() for x in wide]
        y = run(*inputs)
        y.backward(gradient.double())
        return [y.detach()] + [x.grad for x in inputs]


def case(name, rng):
    torch.set_num_threads(1)
    torch.backends.mkldnn.set_flags(False)
    return op_cases.FAMILIES[name](Draw(rng, name.endswith("_exact")))
