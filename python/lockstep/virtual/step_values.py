"""What a rank trains on and with, as the law single-process-equal needs it: the batches of its loaders, the parameters
that a step begins with, the gradients that it uses. In the companion run of one rank the same seams give the
global batches to the loaders, and the ranks' parameters to the model.
"""
from __future__ import annotations

import atexit
import hashlib
import pickle
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.optim import optimizer as optimizers
from torch.utils.data import IterableDataset, dataloader

from lockstep.torch.sites import site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MOST_STEPS = 8  # Whose values are kept.
_PASS = "_lockstep_witnessed"  # On an iterator.
PassKey = tuple[str, int, int]  # The line that began it, and which of those that began there.


@dataclass
class Batch:
    ids: list[int]
    rows: list[bytes] = field(default_factory=list)  # A digest of each sample's tensors.
    n_elements: int = 0  # Of its largest tensor.
    why_not: str = ""  # Why it is unknown what the batch is as one of all ranks.


@dataclass
class Step:
    """One step of an optimizer."""

    parameters: dict[str, torch.Tensor] = field(default_factory=dict)  # At the first forward since the step before.
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)  # That it uses.
    batches: list[tuple[PassKey, int]] = field(default_factory=list)  # Handed out for its forwards.
    rates: list[float] = field(default_factory=list)
    rounding: float = 0.0  # Unit roundoff of the coarsest type that forwards computed in.
    fan_ins: int = 0  # Of the layers of all models that took part, added up.


@dataclass
class Seen:
    """What one rank did."""

    passes: dict[PassKey, list[Batch]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    wrapped: int = 0
    why_not: str = ""  # Why it is unknown what one rank would have to compute.

    def cannot(self, why: str) -> None:
        self.why_not = self.why_not or why


@dataclass(frozen=True)
class Watch:
    """What a rank is given."""

    folder: str  # Where each rank leaves what it saw, by its number.
    feeds: int = 0  # The companion run: of this many ranks. 0: a rank of the job.


def seen_by(folder: str, rank: int) -> Seen | None:
    """None: the rank left nothing."""
    try:
        seen = pickle.loads((Path(folder) / str(rank)).read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        return None
    assert isinstance(seen, Seen)
    return seen


def global_passes(ranks: Sequence[Seen]) -> dict[PassKey, list[list[int]]]:
    """By pass and batch, the samples of all ranks, those of rank 0 first."""
    whole: dict[PassKey, list[list[int]]] = {}
    for seen in ranks:
        for key, batches in seen.passes.items():
            known = whole.setdefault(key, [])
            for number, batch in enumerate(batches):
                if number == len(known):
                    known.append([])
                known[number] += batch.ids
    return whole


class _Pass:
    def __init__(self, key: PassKey, fed: Iterator[list[int]] | None) -> None:
        self.key = key
        self.fed = fed
        self.asked: deque[list[int]] = deque()  # Samples whose batch has not come yet.


class Witness:
    def __init__(self, folder: str, rank: int, fed: Sequence[Seen] = ()) -> None:
        """Args:
            fed: of the companion run: what the ranks saw.
        """
        self.seen = Seen()
        self._path = Path(folder) / str(rank)
        self._steps = fed[0].steps if fed else None
        trained = {key for step in fed[0].steps for key, _ in step.batches} if fed else set()
        self._global = {key: batches for key, batches in global_passes(fed).items() if key in trained}
        self._feeds = bool(fed)
        self._handed: list[tuple[PassKey, int]] = []  # Batches that no forward has followed yet.
        self._counts: dict[tuple[str, int], int] = {}
        self._names: dict[int, str] = {}  # By the address of a parameter ...
        self._kept: list[torch.Tensor] = []  # ... of which none is freed.
        self._now = Step()

    def leave(self) -> None:
        self._path.write_bytes(pickle.dumps(self.seen))

    @property
    def is_over(self) -> bool:
        most = MOST_STEPS if self._steps is None else len(self._steps)
        return len(self.seen.steps) >= most

    # -- loaders
    def begin_pass(self, iterator: Any) -> None:
        file, line = site(sys._getframe(1))
        count = self._counts.get((file, line), 0)
        self._counts[file, line] = count + 1
        key = file, line, count
        # A pass that leads to no step, such as an evaluation's, is the script's own.
        fed = self._global.get(key)
        iterator.__dict__[_PASS] = _Pass(key, None if fed is None else iter(fed))
        self.seen.passes.setdefault(key, [])

    def next_index(self, iterator: Any, real: Callable[[Any], Any]) -> Any:
        one = iterator.__dict__[_PASS]
        index = next(one.fed) if one.fed is not None else real(iterator)
        one.asked.append(_ids_of(index))
        return index

    def came(self, iterator: Any, data: Any) -> None:
        if self.is_over:
            return
        one = iterator.__dict__[_PASS]
        batches = self.seen.passes[one.key]
        self._handed.append((one.key, len(batches)))
        batches.append(_batch_of(one.asked.popleft(), data, isinstance(iterator._dataset, IterableDataset)))

    # -- models
    def wrapped(self, wrapper: Any) -> None:
        for name, parameter in wrapper.module.named_parameters():
            self._names[id(parameter)] = f"{self.seen.wrapped}:{name}"
            self._kept.append(parameter)
        self.seen.wrapped += 1

    def forward(self, wrapper: Any, real: Callable[[], Any]) -> Any:
        handed, self._handed = self._handed, []
        if self.is_over or not (wrapper.training and torch.is_grad_enabled()):
            return real()
        self._now.batches += handed
        for key, number in handed:
            self.seen.cannot(self.seen.passes[key][number].why_not)
        for parameter in wrapper.module.parameters():
            name = self._names.get(id(parameter))
            if name is not None and name not in self._now.parameters:
                self._begin(name, parameter)
        if any(isinstance(each, _BatchNorm) and each.training for each in wrapper.modules()):
            self.seen.cannot("batch normalisation takes its mean and variance from each rank's own batch")
        self._now.rounding = max(self._now.rounding, _roundoff(wrapper))
        self._now.fan_ins += sum(p.numel() // len(p) for p in wrapper.module.parameters() if p.dim() > 1 and len(p))
        before = torch.get_rng_state()
        output = real()
        if not torch.equal(before, torch.get_rng_state()):
            self.seen.cannot("a forward draws random numbers, as dropout does")
        return output

    def _begin(self, name: str, parameter: torch.Tensor) -> None:
        """A step begins with the parameter: with that of the ranks, in the companion run, so that rounding does not
        grow from step to step."""
        if self._steps is not None:
            value = self._steps[len(self.seen.steps)].parameters.get(name)
            if value is None or value.shape != parameter.shape:
                self.seen.cannot(f"as one rank the script has another parameter '{shown(name)}'")
            else:
                with torch.no_grad():
                    parameter.copy_(value)
        self._now.parameters[name] = parameter.detach().clone()

    def step(self, optimizer: Any) -> None:
        if self.is_over:
            return
        step, self._now = self._now, Step()
        for group in optimizer.param_groups:
            step.rates.append(float(group.get("lr", 0.0)))
            for parameter in group["params"]:
                name = self._names.get(id(parameter))
                if name is not None:
                    step.gradients[name] = None if parameter.grad is None else parameter.grad.detach().clone()
        self.seen.steps.append(step)
        if self._feeds and self.is_over:
            raise SystemExit(0)  # Nothing that follows is compared.


def _batch_of(ids: list[int], data: Any, streams: bool) -> Batch:
    if streams:
        return Batch(ids, why_not="a loader reads a stream, which has no indices of samples")
    tensors = [each for each in _tensors_of(data) if each.dim() and len(each) == len(ids)]
    if not tensors:
        return Batch(ids, why_not="a loader hands out batches without a tensor that has a row for each sample")
    return Batch(ids, _digests(tensors), max(each.numel() for each in tensors))


def _ids_of(index: Any) -> list[int]:
    """Empty where there are none: of a stream, or where a sample is not a batch."""
    if not isinstance(index, (list, tuple)) or not all(isinstance(each, int) for each in index):
        return []
    return [int(each) for each in index]


def shown(name: str) -> str:
    """A parameter's name as its module has it."""
    return name.partition(":")[2]


def _roundoff(wrapper: Any) -> float:
    types = {parameter.dtype for parameter in wrapper.module.parameters()}
    if torch.is_autocast_enabled("cpu"):
        types.add(torch.get_autocast_dtype("cpu"))
    return max(float(torch.finfo(each).eps) / 2 for each in types if each.is_floating_point)


def _tensors_of(data: Any) -> list[torch.Tensor]:
    if isinstance(data, torch.Tensor):
        return [data]
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, (list, tuple)) else ()
    return [tensor for each in inner for tensor in _tensors_of(each)]


def _digests(tensors: list[torch.Tensor]) -> list[bytes]:
    rows = []
    for number in range(len(tensors[0])):
        digest = hashlib.blake2b(digest_size=8)
        for tensor in tensors:
            digest.update(tensor[number].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        rows.append(digest.digest())
    return rows


def install(watch: Watch, rank: int) -> None:
    """In the process of a rank, before its program."""
    fed = [seen for number in range(watch.feeds) if (seen := seen_by(watch.folder, number)) is not None]
    witness = Witness(watch.folder, watch.feeds or rank, fed)
    atexit.register(witness.leave)
    _watch_loaders(witness)
    _watch_models(witness)

    def before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if closure is None:
            witness.step(optimizer)
            return None
        # Forward and backward run in the closure, which the step calls.
        return args[:1], {**kwargs, "closure": _then(closure, lambda: witness.step(optimizer))}

    optimizers.register_optimizer_step_pre_hook(before_step)  # type: ignore[attr-defined]


def _then(closure: Callable[[], Any], after: Callable[[], None]) -> Callable[[], Any]:
    """The closure, followed by something the first time that it is called."""
    calls = iter([after])

    def both() -> Any:
        result = closure()
        for each in calls:
            each()
        return result
    return both


def _watch_loaders(witness: Witness) -> None:
    base, many = dataloader._BaseDataLoaderIter, dataloader._MultiProcessingDataLoaderIter
    init, reset, next_index, next_batch = base.__init__, many._reset, base._next_index, base.__next__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        witness.begin_pass(self)
        init(self, *args, **kwargs)

    def _reset(self: Any, loader: Any, first_iter: bool = False) -> None:
        if not first_iter:
            witness.begin_pass(self)
        reset(self, loader, first_iter)

    def __next__(self: Any) -> Any:
        data = next_batch(self)
        witness.came(self, data)
        return data

    base.__init__ = __init__  # type: ignore[method-assign]
    many._reset = _reset  # type: ignore[method-assign]
    base._next_index = lambda self: witness.next_index(self, next_index)  # type: ignore[method-assign]
    base.__next__ = __next__  # type: ignore[method-assign]


def _watch_models(witness: Witness) -> None:
    init, forward = DistributedDataParallel.__init__, DistributedDataParallel.forward

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        witness.wrapped(self)

    def new_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return witness.forward(self, lambda: forward(self, *args, **kwargs))

    DistributedDataParallel.__init__ = __init__  # type: ignore[assignment, method-assign]
    DistributedDataParallel.forward = new_forward  # type: ignore[method-assign]
