"""Writes a program's annotations into its trace (lockstep/annotations.py says what they mean)."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import LogKind, StateKind, StatePoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lockstep.torch.recorder import Recorder

SEAM = "annotations"


class _Replicated:
    """Tensors that a program keeps equal by itself."""

    def __init__(self, wrapper: int, layout: int, tensors: list[Any]) -> None:
        self.wrapper = wrapper
        self.layout = layout
        self.tensors = tensors


class AnnotationWriter:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.gives_samples = False  # Instead of the loaders.
        self.gives_epochs = False  # Instead of the samplers.
        self.batch_given = False  # For the backward that comes next.
        self._replicated: dict[str, _Replicated] = {}

    @property
    def _wrapper(self) -> int:
        return self.recorder.current.wrapper

    def epoch(self, epoch: int, split: str, sampler: str, key: int, order: Sequence[int] | None,
              *shape: Any) -> None:
        self.recorder.quietly(SEAM, lambda: self._epoch(epoch, split, sampler, key, order, *shape))

    def _epoch(self, epoch: int, split: str, sampler: str, key: int, order: Sequence[int] | None,
               *shape: Any) -> None:
        self.gives_epochs = True
        if split == "train":
            self.recorder.in_epoch(epoch)
        if self.recorder.pen is not None:
            digested = None if order is None else torch.as_tensor(order, dtype=torch.int64)
            self.recorder.pen.epoch_annotation(self._wrapper, split, sampler, key & (1 << 64) - 1,
                                             digested, *shape)

    def samples(self, ids: Iterable[int], split: str) -> None:
        self.gives_samples = True
        self._write("sample", lambda: (split, [int(one) for one in ids]))

    def batch(self, n_samples: int, n_tokens: int, denominator: float, declared: str) -> None:
        self.batch_given = True
        self.recorder.batches.forget_size()
        self._write("batch", lambda: (int(n_samples), int(n_tokens), float(denominator), declared))

    def metric(self, name: str, value: float, numerator: float, denominator: float,
               parts: Iterable[float]) -> None:
        self._write("metric", lambda: (name, float(value), float(numerator), float(denominator),
                                       [float(part) for part in parts]))

    def decision(self, name: str, value: int) -> None:
        self._write("decision", lambda: (name, int(value)))

    def stream(self, name: str, generator: Any, shared: bool, worker: int) -> None:
        def state() -> Any:
            if isinstance(generator, (bytes, bytearray)):
                return torch.frombuffer(bytearray(generator), dtype=torch.uint8)
            return generator if torch.is_tensor(generator) else generator.get_state()

        self._write("rng", lambda: (name, shared, worker, state()))

    def replicated(self, name: str, tensors: Iterable[Any] | Mapping[str, Any]) -> None:
        self.recorder.quietly(SEAM, lambda: self._keep(name, tensors))

    def _keep(self, name: str, tensors: Iterable[Any] | Mapping[str, Any]) -> None:
        pen = self.recorder.pen
        if pen is None:
            return
        if isinstance(tensors, Mapping):
            named = {f"{name}/{key}": tensor for key, tensor in tensors.items()}
        else:
            listed = list(tensors)
            named = {name if len(listed) == 1 else f"{name}/{i}": tensor
                     for i, tensor in enumerate(listed)}
        kept = _Replicated(self._wrapper, pen.layout(list(named)), list(named.values()))
        self._replicated[name] = kept
        pen.states(kept.wrapper, StateKind.AUXILIARY, StatePoint.WRAP, kept.layout, kept.tensors)

    def write_replicated(self, wrapper: int, point: StatePoint) -> None:
        """What belongs to this wrapper, as it is now."""
        pen = self.recorder.pen
        for kept in self._replicated.values() if pen is not None else ():
            if kept.wrapper == wrapper and pen is not None:
                pen.states(wrapper, StateKind.AUXILIARY, point, kept.layout, kept.tensors)

    def write_end(self) -> None:
        for wrapper in {kept.wrapper for kept in self._replicated.values()}:
            self.write_replicated(wrapper, StatePoint.END)

    def buffers(self, names: Iterable[str], policy: str) -> None:
        def write() -> None:
            if self.recorder.pen is not None:
                layout = self.recorder.pen.layout(list(names))
                self.recorder.pen.buffer_policy(self._wrapper, layout, policy)

        self.recorder.quietly(SEAM, write)

    def configuration(self, subject: str, data: str) -> None:
        self._write("configuration", lambda: (subject, data, ""))

    def snapshot(self, action: str, step: int, detail: str, digest: int) -> None:
        self._write("snapshot", lambda: (action, int(step), detail, digest))

    def log(self, text: str) -> None:
        def write() -> None:
            if self.recorder.pen is not None:
                self.recorder.pen.log(LogKind.NONE, text)

        self.recorder.quietly(SEAM, write)

    def _write(self, method: str, given: Callable[[], tuple[Any, ...]]) -> None:
        def write() -> None:
            if self.recorder.pen is not None:
                getattr(self.recorder.pen, method)(self._wrapper, *given())

        self.recorder.quietly(SEAM, write)
