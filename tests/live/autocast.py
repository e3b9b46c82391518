"""Every differentiable operation under autocast, forward and backward: 300 fresh cases per family.

Answers that were computed without autocast must be refused: of each operation that it converts operands of.
"""

import random
import subprocess
import sys

import autocast_cases  # Chooses PyTorch's instruction set before anything imports PyTorch.
import live

CONVERTED = autocast_cases.LOWERED + ("mse", "l1", "cross_entropy")


def pairs(rng):
    while True:
        for name in autocast_cases.FAMILIES:
            yield autocast_cases.case(name, rng)


def is_refused_without(name, probe):
    """Whether answers differ where the operation takes its operands as they are given."""
    rng = random.Random(1)
    drawn = [autocast_cases.case(name, rng) for _ in range(30)]
    drawn = [(case, answer) for case, answer in drawn if is_plain_possible(case, name)]
    lines = "\n".join(case.replace("autocast:", "plain:", 1) for case, _ in drawn) + "\n"
    done = subprocess.run([probe], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(drawn) > 0
    return any(not answer.accepts(got) for (_, answer), got in zip(drawn, answers))


def is_plain_possible(case, name):
    """Without autocast, layers take operands of one dtype."""
    leaves = [part.split()[0] for part in case.split(" ; ") if part.startswith("x.")]
    return name not in autocast_cases.LOWERED or set(leaves) == {"x.f32"}


for name in CONVERTED if len(sys.argv) > 1 else ():
    if not is_refused_without(name, sys.argv[1]):
        print(f"autocast: answers without it pass for '{name}'")
        sys.exit(1)
live.run("autocast", pairs, n_cases=300 * len(autocast_cases.FAMILIES))
