"""Optimizers given gradients, and schedules: elements, state, rates and momenta.

Values are arbitrary floats; one gradient in eight is missing. torch 2's running means are asked for
by `lerp=1`. Wheels with MKL round some square roots wrongly; optimizers are then left out.
"""

import os
import sys

import live
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import lr_cases  # noqa: E402

KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
         "adagrad": torch.optim.Adagrad, "rmsprop": torch.optim.RMSprop}
STATE = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "sum", "square_avg", "momentum_buffer",
         "grad_avg")
TORCH2 = torch.__version__.startswith("2")
ROUNDS_ROOTS = not (TORCH2 and torch.backends.mkl.is_available())


def options_of(rng, kind):
    maybe = lambda *values: rng.choice([0.0, 0.0, *values])
    o = {"lr": rng.choice([0.1, 1e-3, rng.uniform(1e-5, 0.5)]),
         "weight_decay": maybe(0.01, rng.uniform(0, 0.3)), "maximize": rng.random() < 0.3}
    if kind == "sgd":
        o["momentum"] = maybe(0.9, rng.uniform(0.1, 0.99))
        o["nesterov"] = o["momentum"] > 0 and rng.random() < 0.4
        if not o["nesterov"]:
            o["dampening"] = maybe(0.1, rng.uniform(0, 1))
    elif kind in ("adam", "adamw"):
        o["betas"] = (rng.choice([0.9, rng.uniform(0, 0.999)]), rng.choice([0.999, rng.uniform(0, 1)]))
        o["eps"] = rng.choice([1e-8, 1e-3])
        o["amsgrad"] = rng.random() < 0.4
    elif kind == "adagrad":
        o["lr_decay"] = maybe(0.05)
        o["initial_accumulator_value"] = maybe(0.5, rng.random())
        o["eps"] = rng.choice([1e-10, 1e-3])
    else:
        o["alpha"] = rng.choice([0.99, rng.random()])
        o["momentum"] = maybe(0.9, rng.random())
        o["centered"] = rng.random() < 0.5
        o["eps"] = rng.choice([1e-8, 1e-3])
    return o


DTYPES = {"f32": torch.float32, "f64": torch.float64}


def optimizer_case(rng, kinds, dtypes=None, longest=40):
    dtypes = dtypes or DTYPES
    kind = rng.choice(list(kinds))
    name = rng.choice(list(dtypes))
    dtype = dtypes[name]
    options = options_of(rng, kind)
    generator = torch.Generator().manual_seed(rng.randrange(2**40))
    n, steps = rng.randrange(1, longest), rng.randrange(1, 51)
    draw = lambda: torch.randn(n, generator=generator, dtype=torch.float64).to(dtype)
    parameter = torch.nn.Parameter(draw())
    words = [live.bits(parameter)]
    optimizer = KINDS[kind]([parameter], foreach=False, **options)
    for _ in range(steps):
        parameter.grad = None if rng.random() < 0.125 else draw()
        words.append("-" if parameter.grad is None else live.bits(parameter.grad))
        optimizer.step()
    state = optimizer.state[parameter]
    answer = [live.bits(parameter)] + [live.bits(state[k]) for k in STATE
                                       if state.get(k) is not None]
    if "betas" in options:
        options["beta1"], options["beta2"] = options.pop("betas")
    flat = " ".join(f"{k}={float(v)!r}" for k, v in options.items())
    return (f"{kind} {name} {n} {steps} {flat} lerp={int(TORCH2)} : {' '.join(words)}",
            " ".join(answer))


def rule(rng, steps):
    whole = lambda low, high: rng.randrange(low, high)
    part = lambda: rng.choice([0.1, 0.5, round(rng.uniform(0.01, 0.99), rng.randrange(2, 15))])
    floor = lambda: rng.choice([0.0, 1e-5, rng.uniform(0, 0.01)])
    made = {
        "step": lambda: f"{whole(1, 60)} {part()!r}",
        "multistep": lambda: f"{part()!r} " + " ".join(
            str(whole(0, steps + 5)) for _ in range(whole(1, 6))),
        "constant": lambda: f"{part()!r} {whole(1, 80)}",
        "linear": lambda: f"{part()!r} {part()!r} {whole(1, 150)}",
        "exponential": lambda: f"{part()!r}",
        "polynomial": lambda: f"{whole(1, 250)} {rng.choice([1.0, 2.0, rng.uniform(0.1, 3)])!r}",
        "cosine": lambda: f"{whole(1, 250)} {floor()!r}",
        "restarts": lambda: f"{whole(1, 60)} {whole(1, 4)} {floor()!r}",
        "lambda": lambda: f"{whole(0, 3)}",
        "multiplicative": lambda: f"{whole(1, 3)}",
    }
    kind = rng.choice(list(made))
    return f"{kind} {made[kind]()}"


def schedule_case(rng):
    steps = rng.randrange(20, 201)
    shape = rng.choice(["one", "one", "one", "onecycle", "plateau", "sequential", "chained"])
    kick = f"{rng.randrange(steps)}:{rng.uniform(0.1, 2)!r}" if rng.random() < 0.4 else "-"
    if shape == "one":
        text = rule(rng, steps)
    elif shape == "onecycle":
        text = (f"onecycle {rng.uniform(0.01, 2)!r} {steps + rng.randrange(0, 40)} "
                f"{rng.uniform(0.11, 0.45)!r} {rng.choice(['cos', 'linear'])} {rng.randrange(2)} "
                f"{rng.uniform(0.5, 0.85)!r} {rng.uniform(0.86, 0.99)!r} "
                f"{rng.uniform(2, 40)!r} {rng.uniform(10, 1e4)!r} {rng.randrange(2)}")
    elif shape == "plateau":
        text = (f"plateau {rng.choice(['min', 'max'])} {rng.uniform(0.1, 0.99)!r} "
                f"{rng.randrange(0, 12)} {rng.choice([1e-4, 0.05, 1.5])!r} "
                f"{rng.choice(['rel', 'abs'])} {rng.randrange(0, 6)} "
                f"{rng.choice([0.0, 0.001, 0.01])!r} 1e-08")
    else:
        n = rng.randrange(2, 4)
        milestones = sorted(rng.sample(range(1, steps), n - 1))
        head = "chained" if shape == "chained" else "sequential " + " ".join(map(str, milestones))
        text = " / ".join([head] + [rule(rng, steps) for _ in range(n)])
    case = f"{rng.choice(['sgd', 'adam'])} 0.1,{rng.uniform(1e-4, 1)!r} {steps} {kick} {text}"
    return f"schedule {case}", " ".join(f"{v % 2**64:016x}" for v in lr_cases.rates(case))


def pairs(rng):
    kinds = [k for k in KINDS if ROUNDS_ROOTS or k == "sgd"]
    while True:
        try:
            yield optimizer_case(rng, kinds) if rng.random() < 0.5 else schedule_case(rng)
        except (ZeroDivisionError, OverflowError, TypeError):
            pass  # PyTorch itself has no answer: a rate like 0 ** negative, or a complex one.


if __name__ == "__main__":
    live.run("optim", pairs)
