"""The state of one rank's recording: its pen, where its events stand, and what went wrong."""
from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import torch

from lockstep._core import Pen
from lockstep.enums import DType, LogKind
from lockstep.torch.annotations import AnnotationWriter
from lockstep.torch.budget import Looking
from lockstep.torch.buffers import Registrations
from lockstep.torch.left_out import LeftOut
from lockstep.torch.on_device import streams
from lockstep.torch.trainings import Trainings

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.torch.averaging import Averaging
    from lockstep.torch.batches import Batches
    from lockstep.torch.exchanges import Exchanges
    from lockstep.torch.groups import Groups
    from lockstep.torch.in_flight import InFlight
    from lockstep.torch.input_rows import InputRows
    from lockstep.torch.patches import Patches
    from lockstep.torch.samplers import Samplers
    from lockstep.torch.schedules import Schedules
    from lockstep.torch.shard_factors import ShardFactors
    from lockstep.torch.sharded import Sharded
    from lockstep.torch.streams import Streams
    from lockstep.torch.wrapping import Wrapping

T = TypeVar("T")
MOST_TROUBLES = 20
INIT, FORWARD, BACKWARD, JOIN = "ddp.init", "ddp.forward", "ddp.backward", "ddp.join"
"""Scopes: what of a wrapper is running."""

DTYPES: dict[torch.dtype, DType] = {
    torch.float32: DType.F32, torch.float64: DType.F64, torch.float16: DType.F16,
    torch.bfloat16: DType.BF16, torch.int8: DType.I8, torch.uint8: DType.U8, torch.int32: DType.I32,
    torch.int64: DType.I64, torch.bool: DType.BOOL}


class Place:
    """Where a wrapper's events stand (docs/trace_format.md, `at`)."""

    def __init__(self, wrapper: int) -> None:
        self.wrapper = wrapper
        self.sync = -1
        self.micro = -1
        self.opt = 0
        self.ahead = False  # The others' step has been counted, which this rank may take part in.


class Recorder:
    """Records one rank. Lives from start() to the end of the process or of the `with` block.

    Nothing here may raise into training: seams call quietly(), or catch themselves and call
    trouble().
    """

    def __init__(self, folder: str, patches: Patches, budget: float = 0.0) -> None:
        self.folder = folder
        self.patches = patches
        self.pen: Pen | None = None
        self.process = os.getpid()
        self.rank = -1
        self.world = 0
        self.epoch = 0
        self.outside = Place(-1)
        self.current = self.outside  # The place of what happens now.
        self.scope = ""
        self.in_file = 0  # Calls that write or read a file and are recorded by themselves.
        self.reduced = False  # The wrapper has posted a reduction in this backward.
        self.exception = ""
        self.poll: Callable[[], None] = lambda: None  # Notices completed collectives.
        self.looking = Looking(budget)
        self.left_out = LeftOut(self)
        self.annotations = AnnotationWriter(self)
        self.trainings = Trainings(self)
        self.registrations = Registrations()
        self.batches: Batches
        self.samplers: Samplers
        self.groups: Groups
        self.streams: Streams
        self.exchanges: Exchanges | None = None
        self.averaging: Averaging | None = None
        self.in_flight: InFlight | None = None
        self.schedules: Schedules | None = None
        self.sharded: Sharded | None = None
        self.shard_factors: ShardFactors | None = None
        self.wrapping: Wrapping
        self.input_rows: dict[int, InputRows] = {}  # By wrapper.
        self.n_losses: Counter[int] = Counter()  # By wrapper.
        self.n_weighted: Counter[int] = Counter()  # Losses with weights of classes, by wrapper.
        self.loaded: WeakSet[torch.nn.Module] = WeakSet()  # Modules that a state was loaded into, with their parts.
        self.before_end: list[Callable[[], None]] = []
        self._troubles: set[str] = set()

    def open(self, rank: int, world: int, backend: str) -> None:
        """Starts the rank's file. Raises OSError."""
        self.rank, self.world = rank, world
        self.process = os.getpid()  # It may be a fork of the one that was armed.
        dtypes: list[Any] = [None] * len(DType)
        for theirs, ours in DTYPES.items():
            dtypes[ours] = theirs
        attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0)
        script = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "interactive"
        self.pen = Pen(self.folder, _run_name(), attempt, rank, world, backend, script,
                       f"torch {torch.__version__}", _clock(), dtypes, self.looking.budget > 0, streams())
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A fork, such as a loader's worker, is not this rank."""
        self.pen = None
        self.left_out.now = False

    def moved(self, place: Place) -> None:
        """Hands the pen a place that has changed."""
        if self.pen is not None:
            self.pen.place(place.wrapper, place.sync, place.micro, place.opt, self.epoch)

    def count_outside(self, step: int) -> None:
        """The step of this number, outside of wrappers, is over. It is counted where what is read for it is known, and here where
        not."""
        if step == self.outside.opt:
            self.outside.opt += 1
            self.moved(self.outside)

    def in_epoch(self, epoch: int) -> None:
        """What is recorded from now on belongs to this epoch."""
        self.epoch = epoch
        for place in (self.outside, *(wrapper.place for wrapper in self.wrapping.all)):
            self.moved(place)

    def trouble(self, seam: str, error: BaseException) -> None:
        """Says once, at once and in the trace, what a seam could not do. The job goes on."""
        what = f"{seam}: {type(error).__name__}: {error}"
        if what in self._troubles or len(self._troubles) >= MOST_TROUBLES:
            return
        self._troubles.add(what)
        if os.environ.get("LOCKSTEP_DEBUG"):
            import traceback
            traceback.print_exception(error)
        if self.pen is None:
            say(f"nothing is recorded: {error}")
            return
        try:
            self.pen.log(LogKind.MISSED, what)
            say(f"rank {self.rank}: the recorder missed something, and the job goes on: {what}")
        except Exception as failure:
            say(f"rank {self.rank}: the recorder missed something, and the trace cannot be written: {what}; {failure}")

    def quietly(self, seam: str, action: Callable[[], T]) -> T | None:
        """Runs `action`; what it raises becomes trouble()."""
        try:
            return action()
        except Exception as error:
            self.trouble(seam, error)
            return None


def say(text: str) -> None:
    """To the user, wherever there still is a place for it."""
    try:
        sys.stderr.write(f"lockstep: {text}\n")  # In one piece: ranks share it.
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass  # The program has closed its stderr.


def _run_name() -> str:
    """The same on all ranks of a run, and on no other run's. Where torchrun spans several nodes, each has its own `lockstep
    record`: the name is what their rendezvous has in common."""
    environment = os.environ
    given = environment.get("LOCKSTEP_RUN")
    if given:
        return given
    master = f"{environment.get('MASTER_ADDR', '')}-{environment.get('MASTER_PORT', '')}"
    job = environment.get("TORCHELASTIC_RUN_ID", "")
    if environment.get("GROUP_WORLD_SIZE", "1") != "1":
        return f"nodes-{master if job in ('', 'none') else job}"
    return environment.get("LOCKSTEP_STARTED") or f"{job}-{master}"


def _clock() -> str:
    """Names the clock that times count from: processes on one machine share it until it restarts."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return "monotonic " + file.read().strip()
    except OSError:
        return ""
