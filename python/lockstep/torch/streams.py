"""The seam to random numbers: in which state a rank, or a worker of its loader, first draws in a pass.

Dropout: the patch of the wrapper's forward (wrapping.py) has the device's generator looked at before and
after it, if the module holds a dropout that is switched on. Data sets: a patch of what fetches a batch of
a map-style data set looks at the global generators of torch, NumPy and Python around it, in the rank
itself and, since they are forks of it, in its loader's workers, which tell the rank through a pipe. What a
collate function draws is left out: ranks may share it on purpose, such as the size of the next batch.

States are read and never set. A stream counts only if what it drew follows from the state that it was
found in: a program that seeds anew for every sample may do so from equal states.
"""
from __future__ import annotations

import hashlib
import os
import random
import sys
import weakref
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import torch
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.data import dataloader, get_worker_info
from torch.utils.data._utils import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.recorder import Recorder

Entered = tuple[torch.Generator, torch.Tensor, int]

SEAM = "streams"
LOOKS = 4  # Forwards or batches of a pass that are looked at before none is expected to draw.
_KEY = 624  # Words that a Mersenne twister makes at a time.
_STRIDE = 256
_MOST_STRIDES = 64  # Ten million words: a twentieth of a second, once a pass.


class Model(Protocol):
    """What a forward is of: a wrapper's module, or one that is divided."""

    @property
    def index(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def module(self) -> Callable[[], torch.nn.Module | None]: ...


class Draw(NamedTuple):
    """A stream that is drawn from."""

    nth: int  # Batch of its worker.
    worker: int
    stream: str
    state: bytes  # A digest of it.


# -- the generators of a process

class _Torch:
    name = "torch"

    def state(self) -> Any:
        return torch.default_generator.get_state(), torch.initial_seed()

    def changed(self, before: Any, after: Any) -> bool:
        return not torch.equal(before[0], after[0])

    def drew(self, before: Any, after: Any) -> bool:
        return bool(before[1] == after[1])

    def digest(self, state: Any) -> bytes:
        return _digest(bytes(state[0].numpy()))


class _Python:
    name = "random"

    def state(self) -> Any:
        return random.getstate()[1]

    def changed(self, before: Any, after: Any) -> bool:
        return bool(before != after)

    def drew(self, before: Any, after: Any) -> bool:
        probe = random.Random()
        probe.setstate((3, before, None))
        return _follows(before, after, probe.randbytes)

    def digest(self, state: Any) -> bytes:
        return _digest(array("I", state).tobytes())


class _NumPy:
    name = "numpy.random"

    def __init__(self, numpy: Any) -> None:
        self._random = numpy.random

    def state(self) -> Any:
        kind, key, position, *_ = self._random.get_state()
        return (*key.tolist(), position) if kind == "MT19937" else ()

    def changed(self, before: Any, after: Any) -> bool:
        return bool(before != after)

    def drew(self, before: Any, after: Any) -> bool:
        if not before or not after:
            return False
        probe = self._random.RandomState()
        probe.set_state(("MT19937", before[:_KEY], before[_KEY]))
        return _follows(before, after, probe.bytes)

    def digest(self, state: Any) -> bytes:
        return _digest(array("I", state).tobytes())


def _follows(before: tuple[int, ...], after: tuple[int, ...], draw: Callable[[int], bytes]) -> bool:
    """Whether a Mersenne twister in one state comes to the other by being drawn from."""
    if before[:_KEY] == after[:_KEY]:
        return after[_KEY] > before[_KEY]
    wanted = (_tempered(after[0]), _tempered(after[1]))
    if before[_KEY] < _KEY:  # NumPy draws one word when it is asked for none.
        draw(4 * (_KEY - before[_KEY]))
    for _ in range(_MOST_STRIDES):
        words = array("I", draw(4 * _KEY * _STRIDE))
        if any((words[i], words[i + 1]) == wanted for i in range(0, len(words), _KEY)):
            return True
    return False


def _tempered(word: int) -> int:
    """What a Mersenne twister gives out for a word of its key."""
    word ^= word >> 11
    word ^= word << 7 & 0x9D2C5680
    word ^= word << 15 & 0xEFC60000
    return word ^ word >> 18


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _sources() -> list[Any]:
    """What the program has loaded: who never imported NumPy cannot draw from it."""
    numpy = sys.modules.get("numpy")
    return [_Torch(), _Python()] + ([_NumPy(numpy)] if numpy is not None else [])


# -- data sets

class _Watch:
    """The first batches of one pass over a data set."""

    def __init__(self) -> None:
        self.sources = _sources()
        self.left = LOOKS

    def fetched(self, before: list[Any], after: list[Any]) -> list[tuple[str, bytes]]:
        """Returns: the streams that this batch was the first to draw from, and their states before."""
        self.left -= 1
        found, rest = [], []
        for source, old, new in zip(self.sources, before, after):
            if not source.changed(old, new):
                rest.append(source)
            elif source.drew(old, new):
                found.append((f"data set, {source.name}", source.digest(old)))
        self.sources = rest
        return found

    def states(self) -> list[Any]:
        return [source.state() for source in self.sources]


LOADER = "_lockstep_loader"  # On an iterator with workers: its number.


class Streams:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.process = os.getpid()
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self.n_loaders = 0  # Passes that have made workers or may have: a fork knows its own.
        self._told: dict[int, list[Draw]] = {}  # By loader: what its workers have drawn from.
        self.own: list[Draw] = []  # What this process has, for the batch that it is about to hand out.
        self._half = b""  # Of a line.
        self._looks: WeakKeyDictionary[Model, tuple[int, int]] = WeakKeyDictionary()  # Epoch, and forwards left to look at.

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)

    # -- in the process that fetches

    def watch(self, fetcher: Any) -> None:
        """Looks at the first batches that this fetches."""
        real, place = type(fetcher).fetch, weakref.ref(fetcher)
        fetcher.__dict__["_lockstep_watch"] = _Watch()
        fetcher.__dict__["fetch"] = lambda index: self.around(place(), index, real)

    def around(self, fetcher: Any, index: Any, real: Callable[..., Any]) -> Any:
        watch = fetcher.__dict__["_lockstep_watch"]
        before = self.quietly(watch.states)
        after: list[Any] = []
        collate = fetcher.collate_fn

        def looked(data: Any) -> Any:
            after.extend(self.quietly(watch.states) or [])
            return collate(data)

        fetcher.collate_fn = looked
        try:
            return real(fetcher, index)
        finally:
            fetcher.collate_fn = collate
            if before and after:
                self.quietly(lambda: self._tell(LOOKS - watch.left, watch.fetched(before, after)))
            if watch.left <= 0 or not watch.sources:
                fetcher.__dict__.pop("fetch", None)

    def quietly(self, action: Callable[[], Any]) -> Any:
        return self.recorder.quietly(SEAM, action) if os.getpid() == self.process else _in_worker(action)

    def _tell(self, nth: int, found: list[tuple[str, bytes]]) -> None:
        worker = get_worker_info()
        if worker is None:
            self.own += [Draw(0, -1, stream, state) for stream, state in found]
            return
        for stream, state in found:
            line = f"{self.n_loaders}\t{nth}\t{worker.id}\t{stream}\t{state.hex()}\n".encode()
            os.write(self._writer, line)  # Whole or not at all: shorter than what a pipe takes at once.

    # -- in the rank

    def handed(self, iterator: Any) -> list[Draw]:
        """A loader hands out a batch. Returns: streams that were drawn from and are not recorded yet."""
        number = iterator.__dict__.get(LOADER)
        if number is None and not self.own or os.getpid() != self.process:
            return []
        own, self.own = self.own, []
        if number is None:
            return own
        self._read()
        # Those of batches that have been handed out: when a message comes is up to chance.
        waiting = sorted(self._told.pop(number, []))
        due = [draw for draw in waiting
               if draw.nth * iterator._num_workers + draw.worker < iterator._num_yielded]
        self._told[number] = [draw for draw in waiting if draw not in due]
        return own + due

    def _read(self) -> None:
        try:
            data = self._half + os.read(self.reader, 1 << 16)
        except BlockingIOError:
            return
        *lines, self._half = data.split(b"\n")
        for line in lines:
            loader, nth, worker, stream, state = line.decode().split("\t")
            self._told.setdefault(int(loader), []).append(
                Draw(int(nth), int(worker), stream, bytes.fromhex(state)))

    def write(self, wrapper: int, group: int, draw: Draw) -> None:
        pen = self.recorder.pen
        if pen is not None:
            # Ranks of other groups may share a stream on purpose, as those do that share out one model.
            stream = f"{draw.stream}, group {group}" if group else draw.stream
            pen.rng(wrapper, stream, False, draw.worker, torch.frombuffer(bytearray(draw.state), dtype=torch.uint8))

    # -- dropout

    def is_settled(self, model: Model) -> bool:
        """Whether the next forward need not be looked at."""
        return self._looks.get(model) == (self.recorder.epoch, 0)

    def entering(self, model: Model) -> Entered | None:
        """Its forward begins. Returns: what to compare with when it is over."""
        epoch, left = self._looks.get(model, (-1, 0))
        if epoch == self.recorder.epoch and left == 0:
            return None
        module = model.module()
        if self.recorder.pen is None or module is None or not module.training or not torch.is_grad_enabled():
            return None
        left = left - 1 if epoch == self.recorder.epoch else LOOKS - 1
        self._looks[model] = (self.recorder.epoch, left)
        if not any(_drops(inner) for inner in module.modules()):
            self._looks[model] = (self.recorder.epoch, 0)
            return None
        generator = _generator_of(module)
        return None if generator is None else (generator, generator.get_state(), generator.initial_seed())

    def left(self, model: Model, entered: Entered) -> None:
        generator, state, seed = entered
        if generator.initial_seed() == seed and not torch.equal(generator.get_state(), state):
            self._looks[model] = (self.recorder.epoch, 0)
            self.write(model.index, model.group, Draw(0, -1, "dropout", _digest(bytes(state.numpy()))))


def _drops(module: torch.nn.Module) -> bool:
    if not module.training:
        return False
    if isinstance(module, _DropoutNd):
        return bool(0.0 < module.p < 1.0)
    own = getattr(module, "dropout", 0.0)  # Of attention and recurrent layers.
    return isinstance(own, float) and 0.0 < own < 1.0


def _generator_of(module: torch.nn.Module) -> torch.Generator | None:
    """That of the device that the module's parameters lie on."""
    for parameter in module.parameters():
        device = parameter.device
        if device.type == "cpu":
            return torch.default_generator
        if device.type == "cuda":
            return torch.cuda.default_generators[device.index or 0]
        return None
    return None


def _in_worker(action: Callable[[], Any]) -> Any:
    """A worker has no trace to note a trouble in."""
    try:
        return action()
    except Exception:
        return None


def install(recorder: Recorder) -> None:
    streams = recorder.streams = Streams(recorder)
    recorder.patches.on_undo(streams.close)

    def make_fetcher(real: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            real(self, *args, **kwargs)
            streams.quietly(lambda: streams.watch(self))
        return __init__

    def make_init(real: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            streams.n_loaders += 1
            self.__dict__[LOADER] = streams.n_loaders
            real(self, loader, *args, **kwargs)
        return __init__

    recorder.patches.wrap(fetch._MapDatasetFetcher, "__init__", make_fetcher)
    recorder.patches.wrap(dataloader._MultiProcessingDataLoaderIter, "__init__", make_init)
