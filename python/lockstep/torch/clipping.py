"""The seam to clipping: limit, norm and factor of each call.

Patches: the two functions that clip_grad_norm_ is made of, under the names by which it calls them (so
that a script that imported it earlier is seen too) and under their public names; clip_grad_value_. A
PyTorch that does not divide clip_grad_norm_ has that one patched instead.
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import ClipKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

SEAM = "clipping"


class Clipping:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._norm: Any = lambda: None  # The last norm that was taken, and of which order.
        self._order = 2.0
        self.measure: Callable[..., Any] | None = None  # PyTorch's own total norm.

    def took(self, norm: Any, order: float) -> None:
        self._norm, self._order = weakref.ref(norm), float(order)

    def looks(self) -> bool:
        if self.recorder.pen is None:
            return False
        shards = self.recorder.shard_factors
        wrapped = any(wrapper.looks for wrapper in self.recorder.wrapping.all)
        return wrapped or (shards is not None and shards.waits)

    def by_norm(self, parameters: list[Any], limit: float, norm: Any, order: float | None = None) -> None:
        """Before the gradients are scaled."""
        own = self._norm() is not norm and order is None  # A norm of the program's own.
        given = self._order if order is None else float(order)
        total = torch.as_tensor(norm)
        factor = float(torch.clamp(float(limit) / (total + 1e-6), max=1.0))
        if self.recorder.shard_factors is not None:
            self.recorder.shard_factors.clipped(parameters, factor)
        self._write(ClipKind.NORM, parameters, float(limit), given, float(total), factor, not own,
                    self._measured(parameters, given) if own else 0.0)

    def _measured(self, parameters: list[Any], order: float) -> float:
        """The norm of these gradients alone; 0 = it cannot be taken without asking other ranks."""
        grads = [p.grad for p in parameters if p.grad is not None]
        if self.measure is None or not grads or any(type(grad) is not torch.Tensor for grad in grads):
            return 0.0
        with torch.no_grad():
            return float(self.measure(grads, order))

    def by_value(self, parameters: list[Any], limit: float) -> None:
        self._write(ClipKind.VALUE, parameters, float(limit), 2.0, 0.0, 1.0, True)

    def _write(self, kind: ClipKind, parameters: list[Any], limit: float, order: float, norm: float,
               factor: float, whole: bool, own: float = 0.0) -> None:
        have = [p for p in parameters if p.grad is not None]
        shares = self.recorder.wrapping.names_of(have)
        if not have:  # A call that finds nothing is one, too.
            shares = [(wrapper, []) for wrapper, _ in self.recorder.wrapping.names_of(parameters)]
        alone = len(shares) == 1 and len(shares[0][1]) == len(have)
        for wrapper, names in shares:
            if wrapper.looks and self.recorder.pen is not None:
                self.recorder.pen.clip(wrapper.index, kind, limit, order, norm, factor,
                                       wrapper.layout(names), whole and alone, own if alone else 0.0)


def _listed(parameters: Any) -> list[Any]:
    return [parameters] if torch.is_tensor(parameters) else list(parameters)


def install(recorder: Recorder) -> None:
    from torch.nn import utils
    from torch.nn.utils import clip_grad as module

    clipping = Clipping(recorder)

    def make_norm(real: Callable[..., Any]) -> Callable[..., Any]:
        clipping.measure = real

        def get_total_norm(tensors: Any, norm_type: float = 2.0, *args: Any, **kwargs: Any) -> Any:
            norm = real(tensors, norm_type, *args, **kwargs)
            recorder.quietly(SEAM, lambda: clipping.took(norm, norm_type))
            return norm
        return get_total_norm

    def make_clip(real: Callable[..., Any]) -> Callable[..., Any]:
        def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, *args: Any,
                                  **kwargs: Any) -> Any:
            if clipping.looks():
                parameters = _listed(parameters)  # It may be a generator.
                recorder.quietly(SEAM, lambda: clipping.by_norm(parameters, max_norm, total_norm))
            return real(parameters, max_norm, total_norm, *args, **kwargs)
        return clip_grads_with_norm_

    def make_whole(real: Callable[..., Any]) -> Callable[..., Any]:
        def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0, *args: Any,
                            **kwargs: Any) -> Any:
            parameters = _listed(parameters)
            norm = real(parameters, max_norm, norm_type, *args, **kwargs)
            if clipping.looks():
                recorder.quietly(SEAM, lambda: clipping.by_norm(parameters, max_norm, norm, norm_type))
            return norm
        return clip_grad_norm_

    def make_value(real: Callable[..., Any]) -> Callable[..., Any]:
        def clip_grad_value_(parameters: Any, clip_value: float, *args: Any, **kwargs: Any) -> Any:
            if clipping.looks():
                parameters = _listed(parameters)
                recorder.quietly(SEAM, lambda: clipping.by_value(parameters, clip_value))
            return real(parameters, clip_value, *args, **kwargs)
        return clip_grad_value_

    patched = [("clip_grad_value_", "clip_grad_value_", make_value)]
    if hasattr(module, "_clip_grads_with_norm_") and hasattr(module, "_get_total_norm"):
        patched += [("_get_total_norm", "get_total_norm", make_norm),
                    ("_clip_grads_with_norm_", "clip_grads_with_norm_", make_clip)]
    else:
        patched += [("clip_grad_norm_", "clip_grad_norm_", make_whole)]
    for inner, outer, make in patched:
        recorder.patches.wrap(module, inner, make)
        if hasattr(utils, outer):
            recorder.patches.replace(utils, outer, getattr(module, inner))
