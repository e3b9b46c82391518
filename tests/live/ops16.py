"""Every differentiable operation in f16 and bf16, forward and backward: 300 fresh cases per family and type."""

import op16_cases  # Chooses PyTorch's instruction set before anything imports PyTorch.
import live
import op_cases


def pairs(rng):
    while True:
        for name in op_cases.FAMILIES:
            yield op16_cases.case(name, rng)


live.run("ops16", pairs, n_cases=600 * len(op_cases.FAMILIES))
