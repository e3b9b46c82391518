"""Writes schedules.txt: learning rates and momenta over 200 steps.

Torch 2.15.0 writes the same lines as 1.13.0: run it with either.
"""

import os

from golden_format import listed, write
from lr_cases import rates

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = [
    "step 30 0.1", "step 7 0.93", "step 1 0.97", "step 500 0.1",
    "multistep 0.3 80 30 30 5", "multistep 0.5 1 199", "multistep 0.9 0 10 20 30 40",
    "constant 0.3 17", "constant 0.3333333333333333 5", "constant 0.0 400", "constant 1.0 3",
    "linear 0.25 1.0 40", "linear 0.9 0.05 150", "linear 0.3333333333333333 1.0 5",
    "linear 1.0 0.0 200",
    "exponential 0.97", "exponential 1.01", "exponential 0.5",
    "polynomial 60 1.0", "polynomial 150 2.0", "polynomial 250 0.9",
    "cosine 50 0.0", "cosine 33 0.001", "cosine 500 0.0", "cosine 1 0.01", "cosine 200 1e-06",
    "restarts 10 2 0.001", "restarts 23 1 0.0", "restarts 1 3 0.0", "restarts 60 2 1e-05",
    "lambda 0", "lambda 1", "lambda 2",
    "multiplicative 1", "multiplicative 2",
    "onecycle 0.7 250 0.3 cos 1 0.85 0.95 25.0 10000.0 0",
    "onecycle 0.7 230 0.25 linear 1 0.8 0.9 10.0 100.0 1",
    "onecycle 0.1 201 0.45 cos 1 0.85 0.95 25.0 10000.0 1",
    "onecycle 0.1 200 0.1 linear 0 0.85 0.95 4.0 10.0 0",
    "plateau min 0.5 3 0.0001 rel 2 0.0 1e-08", "plateau min 0.1 10 0.5 abs 0 0.0 1e-08",
    "plateau max 0.7 5 1.5 abs 0 0.01 1e-08", "plateau max 0.9 2 0.05 rel 4 0.0 1e-08",
    "plateau min 0.99 0 0.0001 rel 0 0.02 0.001",
    "sequential 10 90 / linear 0.1 1.0 10 / cosine 60 0.0 / exponential 0.97",
    "sequential 2 / constant 0.1 2 / exponential 0.9",
    "sequential 20 50 120 / constant 0.5 20 / step 10 0.5 / polynomial 60 1.0 / multistep 0.1 5 9",
    "sequential 30 / linear 0.01 1.0 30 / restarts 20 2 0.0",
    "sequential 30 / restarts 20 2 0.0 / lambda 1",
    "chained / constant 0.1 2 / exponential 0.9",
    "chained / linear 0.1 1.0 20 / cosine 180 0.0 / multistep 0.5 50 100",
]


def lines():
    for rule in RULES:
        kind = "adam" if "onecycle 0.7 250" in rule or "onecycle 0.1 201" in rule else "sgd"
        for kick in ("-", "57:0.5"):
            if kick != "-" and rule.split()[0] in ("onecycle", "restarts", "lambda"):
                continue
            case = f"{kind} 0.1,0.03 200 {kick} {rule}"
            yield f"{case} : {listed(rates(case))}"


write(os.path.join(HERE, "schedules.txt"), "make_schedules.py",
      "optimizer rates steps kick schedule : bits of each group's rate and momentum, 201 times",
      list(lines()))
