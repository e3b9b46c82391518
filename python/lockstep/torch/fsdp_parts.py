"""A rank's parts of a model that fully_shard divides: what they begin with, and by what their gradients are multiplied
between a backward and the step."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import ClipKind

if TYPE_CHECKING:
    from lockstep.torch.recorder import Recorder

STREAM = "initial shards"
FEWEST_PARTS = 2  # One tensor may repeat its rows on purpose.
FEWEST = 16  # Elements that are not alike by chance.
MOST_HELD = 8
MOST_ELEMENTS = 4096
MOST_STEPS = 32
ROUNDING = 2.0 ** -22  # Of a product of two numbers in single precision, and of what is computed from it.


def _part_of(tensor: Any, world: int) -> Any:
    """The rank's part of a tensor of a model that all ranks have parts of, where they are even and no two ranks have the same one;
    else None."""
    placements = getattr(tensor, "placements", ())
    if not placements or not placements[0].is_shard():
        return None
    if tensor.shape[placements[0].dim] % world or not tensor.is_floating_point():
        return None
    with torch.no_grad():
        part = tensor.detach().to_local()
    return part if part.numel() and not part.is_meta else None


def write_initial(recorder: Recorder, module: Any) -> None:
    """A digest of all parts that do not hold one number alone. Ranks that draw them from one seed have the same."""
    pen, digests, n_elements = recorder.pen, b"", 0
    for parameter in module.parameters():
        part = _part_of(parameter, recorder.world)
        if pen is None or part is None or bool((part == part.flatten()[0]).all()):
            continue
        digests += pen.digest(part).to_bytes(8, "little")
        n_elements += part.numel()
    if pen is not None and len(digests) >= 8 * FEWEST_PARTS and n_elements >= FEWEST:
        pen.rng(-1, STREAM, False, -1, torch.frombuffer(bytearray(digests), dtype=torch.uint8))


class PartGradients:
    """Some gradients of one model, as its last backward has left the rank's parts of them."""

    def __init__(self, module: Any, world: int) -> None:
        self._module = weakref.ref(module)
        self._world = world
        self._held: list[tuple[Any, Any]] = []  # Parameter, and a copy of the part.
        self._n_steps = 0

    def after_backward(self) -> None:
        module = self._module()
        self._held = []
        if module is None or self._n_steps >= MOST_STEPS:
            return
        for parameter in module.parameters():
            part = self._gradient_of(parameter)
            if part is not None and 1 < part.numel() <= MOST_ELEMENTS:
                self._held.append((parameter, part.clone()))
            if len(self._held) == MOST_HELD:
                break

    def _gradient_of(self, parameter: Any) -> Any:
        part = _part_of(parameter.grad, self._world) if parameter.grad is not None else None
        return part if part is not None and part.dtype in (torch.float32, torch.float64) else None

    def write(self, recorder: Recorder) -> None:
        """A step is going to use them."""
        held, self._held = self._held, []
        self._n_steps += bool(held)
        factor = self._factor(held)
        if factor is not None and recorder.pen is not None:
            recorder.pen.clip(-1, ClipKind.PART, 0.0, 2.0, 0.0, factor, recorder.pen.layout([]), False, 0.0)

    def _factor(self, held: list[tuple[Any, Any]]) -> float | None:
        """The one number by which all parts were multiplied; None: there is none, or too little to say so."""
        factors, n_elements = [], 0
        for parameter, before in held:
            after = self._gradient_of(parameter)
            if after is None or after.shape != before.shape:
                return None
            if not bool(before.any()):
                continue  # Any number fits.
            factor = factor_between(before.flatten().double(), after.flatten().double())
            if factor is None:
                return None
            factors.append(factor)
            n_elements += before.numel()
        if len(factors) < FEWEST_PARTS or n_elements < FEWEST:
            return None
        one = factors[0]
        return one if all(abs(other - one) <= 2.0 * ROUNDING * abs(one) for other in factors) else None


def factor_between(before: Any, after: Any) -> float | None:
    """The one number by which all elements of a flat tensor were multiplied; None: there is none."""
    at = int(before.abs().argmax())
    factor = float(after[at] / before[at])
    if not 0.0 < factor < float("inf"):
        return None
    product = before * factor
    allowed = ROUNDING * product.abs() + float(torch.finfo(torch.float32).tiny)
    return factor if bool(((after - product).abs() <= allowed).all()) else None
