"""Schedules as words, for the golden file and for fresh random cases: see tests/optim/lr_case.h.

A case is `OPTIMIZER RATES STEPS KICK SCHEDULE`: sgd or adam; the groups' rates; how often the schedule
steps; `epoch:factor`, a change of the rates from outside, or `-`; then one rule, or several after
`sequential MILESTONES / ` or `chained / `, separated by ` / `.
"""

import struct
import warnings

import torch
from torch.optim import lr_scheduler as lrs

warnings.simplefilter("ignore")

FACTORS = [
    lambda epoch: 1 / (1 + epoch),
    lambda epoch: 0.95 ** epoch,
    lambda epoch: 1.0 if epoch % 3 else 0.5,
]


def metric(epoch):
    """Falls, stalls, falls again, with a little saw on it. Whole numbers."""
    return float((max(60 - epoch, 20) if epoch < 120 else max(140 - epoch, 3)) + epoch % 4)


def rule(optimizer, text):
    """One rule on an optimizer."""
    kind, *words = text.split()
    n = [float(word) if "." in word or "e" in word or "n" in word else int(word)
         for word in words if word not in ("cos", "linear", "min", "max", "rel", "abs")]
    if kind == "step":
        return lrs.StepLR(optimizer, n[0], n[1])
    if kind == "multistep":
        return lrs.MultiStepLR(optimizer, n[1:], n[0])
    if kind == "constant":
        return lrs.ConstantLR(optimizer, n[0], n[1])
    if kind == "linear":
        return lrs.LinearLR(optimizer, n[0], n[1], n[2])
    if kind == "exponential":
        return lrs.ExponentialLR(optimizer, n[0])
    if kind == "polynomial":
        return lrs.PolynomialLR(optimizer, n[0], n[1])
    if kind == "cosine":
        return lrs.CosineAnnealingLR(optimizer, n[0], n[1])
    if kind == "restarts":
        return lrs.CosineAnnealingWarmRestarts(optimizer, n[0], n[1], n[2])
    if kind == "lambda":
        return lrs.LambdaLR(optimizer, FACTORS[n[0]])
    if kind == "multiplicative":
        return lrs.MultiplicativeLR(optimizer, FACTORS[n[0]])
    if kind == "onecycle":
        return lrs.OneCycleLR(
            optimizer, n[0], n[1], pct_start=float(n[2]), anneal_strategy=words[3],
            cycle_momentum=bool(n[3]), base_momentum=n[4], max_momentum=n[5], div_factor=n[6],
            final_div_factor=n[7], three_phase=bool(n[8]))
    assert kind == "plateau", text
    return lrs.ReduceLROnPlateau(
        optimizer, words[0], n[0], n[1], threshold=n[2], threshold_mode=words[4], cooldown=n[3],
        min_lr=n[4], eps=n[5])


def schedule(optimizer, text):
    """A rule, or several rules in sequence or in a chain."""
    first, *parts = text.split(" / ")
    if not parts:
        return rule(optimizer, text)
    rules = [rule(optimizer, part) for part in parts]
    if first == "chained":
        return lrs.ChainedScheduler(rules)
    return lrs.SequentialLR(optimizer, rules, [int(word) for word in first.split()[1:]])


def double(value):
    return struct.unpack(">q", struct.pack(">d", value))[0]


def rates(case):
    """Bits of each group's rate and momentum: at first, and after each step."""
    kind, lr, steps, kick, text = case.split(" ", 4)
    make = torch.optim.SGD if kind == "sgd" else torch.optim.Adam
    options = {"momentum": 0.9} if kind == "sgd" else {}
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": float(word)}
              for word in lr.split(",")]
    optimizer = make(groups, lr=0.5, **options)
    one = schedule(optimizer, text)
    numbers = []

    def note():
        for group in optimizer.param_groups:
            momentum = group["momentum"] if kind == "sgd" else group["betas"][0]
            numbers.extend([double(group["lr"]), double(momentum)])

    note()
    for epoch in range(int(steps)):
        if kick != "-" and int(kick.split(":")[0]) == epoch:
            for group in optimizer.param_groups:
                group["lr"] *= float(kick.split(":")[1])
        optimizer.step()
        if text.startswith("plateau"):
            one.step(-metric(epoch) if " max " in text else metric(epoch))
        else:
            one.step()
        note()
    return numbers
