"""Every differentiable operation, forward and backward: 300 fresh cases per family."""

import live
import op_cases


def pairs(rng):
    while True:
        for name in [*op_cases.FAMILIES, *op_cases.FULL_WIDTH]:
            yield op_cases.case(name, rng)


live.run("ops", pairs, n_cases=300 * (len(op_cases.FAMILIES) + len(op_cases.FULL_WIDTH)))
