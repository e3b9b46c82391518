"""The process that all ranks are forked from: PyTorch is imported and warmed up once, so that a rank
begins in milliseconds and shares the memory of what was imported."""
from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep import _core
from lockstep.virtual import arena
from lockstep.virtual.connection import Refused
from lockstep.virtual.large_pages import Forks
from lockstep.virtual.output import Printer, pipes

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Sequence

    from lockstep.virtual.rank import Place, Settings

# What DDP's constructor and a first step import: every fork would import it again.
_LAZY = ("torch._dynamo", "torch._dynamo.utils", "torch.distributed.optim", "torch.nn.parallel",
         "torch.utils.data.distributed", "torch.distributed.rpc", "numpy")
# Of ours, what turns a fork into a rank.
_OWN = ("lockstep.virtual.rank", "lockstep.virtual.redirect", "lockstep.virtual.pretended",
        "lockstep.virtual.spawn", "lockstep.virtual.cut_short",
        "lockstep.torch")
_ERRORS = 99
_forks = Forks()


@dataclass(frozen=True)
class Coordinated:
    """What coordinate() is given besides the ranks (lockstep._core)."""

    mode: str = "parallel"
    strategy: str = ""
    seed: int = 0
    order: str = "gloo-ring"
    pairing: str = "strict"
    expire: bool = False
    faults: Sequence[str] = ()
    limits: Sequence[int] = (0, 0, 0, 0)
    arena_mb: int = 4096


@dataclass
class World:
    """Sockets and memory of one attempt, made before the forks."""

    n: int
    arena_bytes: int
    passed: bool = False  # To processes that were not forked from this one.
    pairs: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)
    memories: list[mmap.mmap] = field(default_factory=list)
    passed_descriptors: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        kind = socket.SOCK_SEQPACKET
        self.pairs = [socket.socketpair(socket.AF_UNIX, kind) for _ in range(self.n)]
        if not self.passed:
            self.memories = [arena.make_shared(self.arena_bytes) for _ in range(self.n)]
            return
        for _ in range(self.n):
            descriptor, memory = arena.make_passed(self.arena_bytes)
            self.passed_descriptors.append(descriptor)
            self.memories.append(memory)

    def take(self, rank: int) -> tuple[socket.socket, mmap.mmap]:
        """In the process of a rank: its own end and memory; all others are closed."""
        for other, (coordinators, own) in enumerate(self.pairs):
            coordinators.close()
            if other != rank:
                own.close()
        return self.pairs[rank][1], self.memories[rank]

    def coordinate(self, pids: Sequence[int], how: Coordinated, store: Sequence[bytes] = ()) -> Any:
        """Serves the ranks until all have ended. In the process that made this, once."""
        ends = []
        for descriptor in self.passed_descriptors:
            os.close(descriptor)
        for coordinators, own in self.pairs:
            own.close()
            ends.append(coordinators.detach())
        addresses = [arena.address_of(memory) for memory in self.memories]
        return _core.coordinate(ends, list(pids), addresses, self.arena_bytes, how.mode, how.strategy, how.seed,
                                how.order, how.pairing, how.expire, list(how.faults), list(how.limits), list(store))


def prepare(preload: Sequence[str] = ()) -> float:
    """Imports what ranks will need, and warms it up. Returns: the seconds it took."""
    begin = time.perf_counter()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # As torchrun does. Threads would not survive a fork.
    import torch

    torch.set_num_threads(1)
    for name in (*_LAZY, *preload):
        try:
            importlib.import_module(name)
        except ImportError as error:
            if name in preload:
                raise Refused(f"--preload {name}: {error}") from None
    for name in _OWN:
        importlib.import_module(name)
    sys.modules["lockstep.torch"].import_seams()
    _warm_up()
    sys.modules["lockstep.torch.variables"].look_at_modules()
    return time.perf_counter() - begin


def _warm_up() -> None:
    """One step without DDP, which leaves everything imported and initialised, and no other mark."""
    import torch

    from lockstep.virtual.random_state import Saved

    saved = Saved()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.utils.data.TensorDataset(torch.randn(4, 2))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=2):
        model(batch).sum().backward()
        optimizer.step()
    saved.restore()
    gc.collect()
    gc.freeze()


def require_no_threads() -> None:
    """Raises Refused where a fork would lose threads."""
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if others:
        raise Refused(f"the process that ranks are forked from has threads, which no fork would have: "
                      f"{', '.join(others)}: do not preload the module that starts them")


def run_attempt(places: Sequence[Place], settings: Settings, how: Coordinated, arguments: Sequence[str],
                program: Callable[[], Any], printer: Printer, store: Sequence[bytes] = ()) -> Any:
    """Forks one process per place, coordinates them to their end. Returns: what coordinate() found."""
    require_no_threads()
    sys.stdout.flush()
    sys.stderr.flush()
    world = World(len(places), how.arena_mb << 20)
    outputs = [pipes() for _ in places]
    parent = os.getpid()
    pids = []
    for place, (readers, writers) in zip(places, outputs):
        pid = os.fork()
        if pid == 0:
            _be_rank(parent, place, world, settings, arguments, program, outputs)
        pids.append(pid)
    for _, writers in outputs:
        for end in writers:
            os.close(end)
    printer.follow([(place.rank, readers) for place, (readers, _) in zip(places, outputs)])
    try:
        return world.coordinate(pids, how, store)
    finally:
        printer.finish()
        _forks.add(len(pids))


def _be_rank(parent: int, place: Place, world: World, settings: Settings, arguments: Sequence[str],
             program: Callable[[], Any], outputs: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    """Does not return."""
    code = _ERRORS
    try:
        from lockstep.virtual import rank

        rank.die_with_parent(parent)
        own = outputs[place.rank][1]
        for readers, writers in outputs:
            for end in (*readers, *(writers if writers is not own else ())):
                os.close(end)
        rank.as_new_interpreter(arguments, own)
        end_of_socket, memory = world.take(place.rank)
        code = rank.run_program_as(place, end_of_socket, memory, settings, program)
    except Exception:  # Others are the parent's signals, which this process still had the handlers of.
        import traceback
        traceback.print_exc()
    finally:
        os._exit(code)


def trace_files(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("*.jsonl"))
