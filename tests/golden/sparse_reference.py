"""Programs over the sparse gradient of an embedding, run by PyTorch: sparse.txt and the live test.

A program is a line: optimizer dtype V D options : start, then words
  use P N i.. g..   adds sum(embedding(i, padding P) * g) to the loss
  dense g..         adds sum(table * g)
  back              differentiates the loss
  step              optimizer step
  none, zero        zero_grad, with set_to_none or without
  show              answers the gradient ("-", "d g..", "s N i.. v..") and the table
The answer ends with the optimizer's state.
"""

import math
import struct

import torch
from torch.nn import functional

DTYPES = {"f32": (torch.float32, ">f"), "f64": (torch.float64, ">d")}
KINDS = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad,
         "sparse_adam": torch.optim.SparseAdam}


def rounded_root(tensor):
    """The square root, rounded once: wheels with MKL do not round theirs."""
    roots = [math.sqrt(v) if v >= 0 else math.nan for v in tensor.detach().reshape(-1).tolist()]
    return torch.tensor(roots, dtype=torch.float64).reshape(tensor.shape).to(tensor.dtype)


if torch.__version__.startswith("2"):
    torch.Tensor.sqrt = rounded_root
    torch.Tensor.sqrt_ = lambda tensor: tensor.copy_(rounded_root(tensor))


def options_of(rng, kind):
    o = {"lr": rng.choice([0.1, 0.01, rng.uniform(1e-4, 0.5)]), "maximize": rng.random() < 0.3}
    if kind == "adagrad":
        o["lr_decay"] = rng.choice([0.0, 0.05])
        o["initial_accumulator_value"] = rng.choice([0.0, 0.5])
        o["eps"] = rng.choice([1e-10, 1e-3])
    if kind == "sparse_adam":
        o["betas"] = (rng.choice([0.9, rng.uniform(0, 0.99)]), rng.choice([0.999, rng.uniform(0, 1)]))
        o["eps"] = rng.choice([1e-8, 1e-3])
    return o


class Program:
    """Draws one program while running it."""

    def __init__(self, rng):
        self.rng = rng
        self.kind = rng.choice(list(KINDS))
        self.name = rng.choice(list(DTYPES))
        self.dtype, self.form = DTYPES[self.name]
        self.rows, self.width = rng.randrange(1, 9), rng.choice([1, 2, 3, 5, 8, 11, 17])
        self.options = options_of(rng, self.kind)
        self.words = []
        self.answer = []
        self.table = torch.nn.Parameter(self.draw(self.rows))
        self.words += self.bits(self.table)
        self.optimizer = KINDS[self.kind]([self.table], **self.options)
        self.loss = None

    def draw(self, rows):
        values = [self.rng.choice([0.0, -0.0, self.rng.gauss(0, 1), self.rng.gauss(0, 1),
                                   self.rng.randrange(-8, 9) / 8])
                  for _ in range(rows * self.width)]
        return torch.tensor(values, dtype=torch.float64).reshape(rows, self.width).to(self.dtype)

    def bits(self, tensor):
        return [struct.pack(self.form, v).hex() for v in tensor.detach().reshape(-1).tolist()]

    def add(self, term):
        self.loss = term if self.loss is None else self.loss + term

    def use(self):
        n = self.rng.randrange(1, 12)
        indices = [self.rng.randrange(self.rows) for _ in range(n)]
        padding = self.rng.choice([-1, -1, self.rng.randrange(self.rows)])
        factor = self.draw(n)
        picked = functional.embedding(torch.tensor(indices), self.table,
                                      padding if padding >= 0 else None, sparse=True)
        self.add((picked * factor).sum())
        self.words += ["use", str(padding), str(n)] + [str(i) for i in indices] + self.bits(factor)

    def dense(self):
        factor = self.draw(self.rows)
        self.add((self.table * factor).sum())
        self.words += ["dense"] + self.bits(factor)

    def show(self):
        self.words.append("show")
        grad = self.table.grad
        if grad is None:
            self.answer.append("-")
        elif not grad.is_sparse:
            self.answer += ["d"] + self.bits(grad)
        elif grad._nnz() == 0:
            self.answer += ["s", "0"]
        else:
            rows = grad._indices()[0].tolist()
            self.answer += ["s", str(len(rows))] + [str(i) for i in rows] + self.bits(grad._values())
        self.answer += self.bits(self.table)

    def backward(self, may_be_dense):
        for _ in range(self.rng.randrange(1, 4)):
            if may_be_dense and self.rng.random() < 0.4:
                self.dense()
            else:
                self.use()
        self.words.append("back")
        self.loss.backward()
        self.loss = None
        self.show()

    def run(self):
        for _ in range(self.rng.randrange(1, 6)):
            # Some optimizers take nothing but sparse gradients.
            dense = self.kind == "sgd" and self.rng.random() < 0.4
            for _ in range(self.rng.randrange(1, 3)):
                self.backward(dense)
            self.words.append("step")
            self.optimizer.step()
            self.show()
            to_none = dense or self.rng.random() < 0.7
            self.words.append("none" if to_none else "zero")
            self.optimizer.zero_grad(set_to_none=to_none)
            self.show()
        state = self.optimizer.state[self.table]
        for key in ("sum", "exp_avg", "exp_avg_sq"):
            if key in state:
                self.answer += self.bits(state[key])
        options = dict(self.options)
        if "betas" in options:
            options["beta1"], options["beta2"] = options.pop("betas")
        flat = " ".join(f"{k}={float(v)!r}" for k, v in options.items())
        return (f"{self.kind} {self.name} {self.rows} {self.width} {flat} : {' '.join(self.words)}",
                " ".join(self.answer))


def pair(rng):
    """(program, answer), but for programs that PyTorch itself cannot run: gradients without a row."""
    while True:
        try:
            return Program(rng).run()
        except RuntimeError:
            pass
