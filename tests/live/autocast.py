"""Every differentiable operation under autocast, forward and backward: 300 fresh cases per family."""

import autocast_cases  # Chooses PyTorch's instruction set before anything imports PyTorch.
import live


def pairs(rng):
    while True:
        for name in autocast_cases.FAMILIES:
            yield autocast_cases.case(name, rng)


live.run("autocast", pairs, n_cases=300 * len(autocast_cases.FAMILIES))
