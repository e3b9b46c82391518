"""What a backward starts from: the loss function, its reduction and value, and what its graph goes through.

No seam of its own: gradients.py hands over the roots of each backward.
"""
from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import LossReduction

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder

SCALED_BY = "_lockstep_scale"  # On a loss that a scaler returned.
_LOSSES = {"MseLossBackward0": "mse_loss", "L1LossBackward0": "l1_loss",
           "NllLossBackward0": "cross_entropy", "NllLoss2DBackward0": "cross_entropy"}
MOST_WEIGHTED = 2  # Losses of a wrapper whose weights are read, which a GPU has to be waited for.
MOST_GRAPHS = 4  # Losses of a wrapper whose graphs are walked through,
MOST_NODES = 20_000  # as far as they are no larger.
MOST_SUMMANDS = 32  # Of a loss, of which one may be a sum divided by a number.
_SUMS = ("SumBackward0", "SumBackward1")
_BACKWARD = re.compile(r"Backward\d*$")
# As nodes of PyTorch's own losses have them.
_REDUCTIONS: dict[Any, LossReduction] = {1: LossReduction.MEAN, 2: LossReduction.SUM}


def _name_of(recorder: Recorder, node: Any) -> str:
    """Of the loss function; of a wrapper's first losses with what distinguishes weights of classes."""
    name = _LOSSES.get(type(node).__name__, "loss")
    weights = getattr(node, "_saved_weight" if name == "cross_entropy" else "_saved_pos_weight", None)
    if weights is None or weights.dim() > 1:
        return name
    wrapper = recorder.current.wrapper
    recorder.n_weighted[wrapper] += 1
    if recorder.n_weighted[wrapper] > MOST_WEIGHTED:
        return name
    return f"{name} with class weights #{zlib.crc32(repr(weights.tolist()).encode()):08x}"


def denominator_of(node: Any, reduction: LossReduction) -> float:
    """What the mean of a loss's terms was divided by; 0: not known, or the terms count by weights."""
    if reduction is not LossReduction.MEAN or getattr(node, "_saved_weight", None) is not None:
        return 0.0
    n_counted = getattr(node, "_saved_total_weight", None)
    if n_counted is not None:
        return float(n_counted)
    # Not in PyTorch 1.13.
    inputs = getattr(node.next_functions[0][0], "_input_metadata", None)
    return float(math.prod(inputs[0].shape)) if inputs else 0.0


def undivided(node: Any) -> tuple[Any, float]:
    """What a loss was before the program divided it by a number, and that number; 1: it has divided by none that is known.
    One that is multiplied by a half, or by a tenth, is weighed rather than divided."""
    if type(node).__name__ != "DivBackward0" or node.next_functions[1][0] is not None:
        return node, 1.0
    divisor = getattr(node, "_saved_other", None)
    if not isinstance(divisor, torch.Tensor) or divisor.numel() != 1 or divisor.device.type != "cpu":
        return node, 1.0
    return node.next_functions[0][0], float(divisor)


def _weighed(node: Any) -> Any:
    """What is multiplied by a number; None where two things that gradients go to are multiplied."""
    edges = [child for child, _ in node.next_functions if child is not None]
    return edges[0] if len(edges) == 1 else None


def divisor_of_a_sum(root: Any) -> float:
    """The number by which the program divided one summand of a loss, itself a sum of many terms, such as `5 * l1.sum() / n_boxes`;
    0: there is no such summand. It is the first one from the left."""
    waiting, n_seen = [root], 0
    while waiting and n_seen < MOST_SUMMANDS:
        node = waiting.pop()
        n_seen += 1
        name = type(node).__name__
        if name == "AddBackward0":
            waiting += [child for child, _ in reversed(node.next_functions) if child is not None]
            continue
        if name == "MulBackward0":
            waiting += [child for child in (_weighed(node),) if child is not None]
            continue
        whole, divisor = undivided(node)
        if whole is node:
            continue
        if type(whole).__name__ == "MulBackward0":
            whole = _weighed(whole)
        is_sum = type(whole).__name__ in _SUMS or _REDUCTIONS.get(getattr(whole, "_saved_reduction", -1)) is LossReduction.SUM
        if is_sum and divisor > 0.0:
            return divisor
    return 0.0


def unscaled(root: torch.Tensor) -> Any:
    """What the graph of a loss ends with, but for the product that a scaler has put on top."""
    node = root.grad_fn
    return node.next_functions[0][0] if hasattr(root, SCALED_BY) and type(node).__name__ == "MulBackward0" else node


def operations_of(root: Any) -> str:
    """By name and number, after the number of leaves: "4 parameters: Addmm x2, MseLoss, Relu". Empty where there is no graph,
    or one that is too large to be walked through."""
    if root is None:
        return ""
    counts: Counter[str] = Counter()
    seen, waiting = {root}, [root]
    while waiting:
        node = waiting.pop()
        counts[_BACKWARD.sub("", type(node).__name__)] += 1
        for other, _ in node.next_functions:
            if other is not None and other not in seen:
                seen.add(other)
                waiting.append(other)
        if len(seen) > MOST_NODES:
            return ""
    n_leaves = counts.pop("AccumulateGrad", 0)
    return f"{n_leaves} parameters: " + ", ".join(name if n == 1 else f"{name} x{n}" for name, n in sorted(counts.items()))


def write_loss(recorder: Recorder, roots: Any, seeded: bool) -> None:
    """What a backward starts from, where that is one number. `seeded`: the program says by what it is
    multiplied."""
    root = roots if torch.is_tensor(roots) else roots[0] if len(roots) == 1 else None
    if recorder.pen is None or root is None or root.numel() != 1:
        return
    value = root.item() / getattr(root, SCALED_BY, 1.0)
    node = unscaled(root)
    name = _name_of(recorder, node)
    reduction = LossReduction.GIVEN
    if not seeded:
        reduction = _REDUCTIONS.get(getattr(node, "_saved_reduction", -1), LossReduction.GIVEN)
    denominator, n_terms = denominator_of(node, reduction), 0
    mean, divisor = undivided(node)
    if divisor > 1.0 and not seeded:
        n_terms = int(denominator_of(mean, _REDUCTIONS.get(getattr(mean, "_saved_reduction", -1), LossReduction.GIVEN)))
        denominator = n_terms * divisor
    if denominator == 0.0 and reduction is LossReduction.GIVEN and not seeded:
        denominator = divisor_of_a_sum(node)
    wrapper = recorder.current.wrapper
    if wrapper in recorder.input_rows:
        recorder.input_rows[wrapper].write_target(mean)
    recorder.n_losses[wrapper] += 1
    graph = operations_of(root.grad_fn) if recorder.n_losses[wrapper] <= MOST_GRAPHS else ""
    recorder.pen.loss(wrapper, name, reduction, value, denominator, n_terms, 0, graph)
