"""The native part. Numbers of closed sets are those of lockstep.enums."""

from collections.abc import Callable
from typing import Any, TypedDict

def sm64(pointer: int, count: int, dtype: int, base: int, /) -> int:
    """The digest of `count` elements at an address (docs/trace_format.md)."""

def fingerprint(pointer: int, count: int, dtype: int, /) -> tuple[int, float, float, float, float, float]:
    """Digest, sum of magnitudes and four signed sums of floating-point elements."""

def check(folders: list[str], allow: list[str], buffers: str, /) -> str:
    """The report on the folders of one job as JSON (docs/report_format.md), with "text", the report for a terminal. Raises
    ValueError."""

def known_law(name: str, /) -> str:
    """The id of a law that a trace can be held to. Raises ValueError, with a guess."""

def trace_of_dumps(files: list[str], folder: str, /) -> None:
    """Writes dumps of PyTorch's Flight Recorder as a folder of traces. Raises ValueError."""

def watch_open(folder: str, allow: list[str], buffers: str, /) -> object:
    """Starts to judge a folder that ranks are still writing to."""

def watch_poll(watch: object, in_silence: bool, /) -> str:
    """Reads on. Returns: a report as JSON with what is certain by now, "" where that has not changed.
    In silence calls are judged, too, while ranks are not level. Raises ValueError for damaged files."""

def die_by(signal: int, /) -> None:
    """Ends the process by this signal, as if no handler were installed."""

class RankEnding(TypedDict):
    """How a rank ended. `outcome`: finished, threw, killed or stuck."""

    outcome: str
    exit_code: int | None  # Of its process; None: a signal ended it, or it is not known.
    signal: int | None  # Not that of the coordinator itself: see stopped.
    stopped: bool  # The coordinator ended it: after a verdict, a fault or an interrupt.
    text: str  # Of its exception, or why it was killed, or what it waited for.
    now_ns: int  # Virtual time.

class Coordination(TypedDict):
    """What coordinate() found."""

    outcome: str  # ok | failed | deadlock | livelock | interrupted
    ends: list[RankEnding]
    first_failure: int | None  # The rank that failed first by itself, not because another had.
    signal: int | None  # interrupted: by which signal.
    error: str  # failed: "rank 1: ...".
    wait_for: str  # deadlock, livelock: who waits for whom, a line a rank, with both sites.
    wait_for_dot: str  # The same for Graphviz.
    missing: list[int]  # Ranks that never came to what others wait for.
    stacks: list[str]  # By rank; empty where it had ended or could not be asked.
    schedule: str  # A strategy that makes the same schedule again.
    token: str  # The same as deviations from the default schedule, however long.
    store: list[bytes]  # Key, value, key, value, ... by key.
    struck: list[str]  # Faults that happened.
    notes: list[str]  # What people should know: that an order depended on the machine, and why.
    report: str  # Laws on the calls, as JSON (docs/report_format.md).
    log: list[tuple[int, int, str]]  # What ranks sent with LOG: rank, virtual ns, text.
    now_ns: int  # Virtual time at the end.
    n_requests: int

def coordinate(
    sockets: list[int], pids: list[int], arenas: list[int], arena_bytes: int, mode: str, strategy: str,
    seed: int, order: str, pairing: str, expire: bool, faults: list[str], limits: list[int],
    store: list[bytes], /,
) -> Coordination:
    """Serves processes as virtual ranks until all have ended, and says how (sim/process/protocol.h).

    By rank: the coordinator's end of each process's socket (SOCK_SEQPACKET; it is closed), the process
    (a child of this one; it is reaped; 0: there is none), the address of the arena that both share.
    mode: parallel | serial. strategy, seed: lockstep's (docs/strategies), a schedule token included; ""
    is the default. order: rank | gloo-ring | nccl-ring:... | ... . pairing: strict | gloo_like |
    nccl_like. expire: timeouts of calls pass in virtual time; otherwise a verdict comes in their place.
    faults: "KIND:RANK:CALL[:AMOUNT]" (sim/process/call_fault.h); torn writes are left to the ranks. limits: naps and polls in a row without
    progress before it is a livelock (0: 20000), milliseconds a process may sleep outside Lockstep's calls
    before the others go on (0: 250), milliseconds it may sleep there before a verdict although something
    might wake it (0: for ever), milliseconds a stopped process has until SIGKILL (0: 2000).
    store: contents at the start, as Coordination.store.

    Runs without the interpreter lock, on the thread that calls. SIGINT and SIGTERM end it: the ranks are
    stopped, then the signal is raised again in this process, and where that raises nothing the outcome is
    "interrupted". Ranks should not share the terminal's SIGINT. Raises ValueError for a wrong argument.
    """

def torn_saves(faults: list[str], ranks: int, /) -> list[tuple[int, int, int]]:
    """Of planned faults those that a rank does to itself: rank, save, percent of the bytes written.

    Raises ValueError for a fault of any kind that is not understood, or whose rank there is not.
    """

class Pen:
    """Writes one rank's events. Tensors are torch.Tensor or None."""

    def __init__(
        self, folder: str, run: str, attempt: int, rank: int, ranks: int, backend: str, scenario: str,
        library: str, clock: str, dtypes: list[Any], sampled: bool,
        streams: Callable[[int], int] | str, /,
    ) -> None:
        """streams: asked for the CUstream in use of a CUDA device, or why tensors of GPUs are copied to the host."""
    def layout(self, names: list[str], /) -> int: ...
    def place(self, wrapper: int, sync: int, micro: int, opt: int, epoch: int, /) -> None: ...
    def wrap(
        self, wrapper: int, params: int, frozen: int, buffers: int, ignored: int, buffer_policy: str,
        bucket_cap_bytes: int, group: int, n_ranks: int, synchronizes: bool, /,
    ) -> None: ...
    def bucket(self, wrapper: int, indices: list[int], lengths: list[int], /) -> None: ...
    def forward(
        self, wrapper: int, through_wrapper: bool, synchronizing: bool, training: bool, grad: bool,
        autocast: str, /,
    ) -> None: ...
    def backward(self, wrapper: int, reduced: bool, /) -> None: ...
    def note(self, wrapper: int, point: int, index: int, grad: Any, /) -> None: ...
    def note_same(self, wrapper: int, point: int, source: int, index: int, /) -> None: ...
    def write_noted(self, wrapper: int, point: int, /) -> None: ...
    def grads(self, wrapper: int, point: int, layout: int, grads: list[Any], /) -> None: ...
    def states(self, wrapper: int, kind: int, point: int, layout: int, tensors: list[Any], /) -> None: ...
    def found(self, wrapper: int, layout: int, parameters: list[Any], /) -> None: ...
    def look_at_buffers(self, wrapper: int, layout: int, buffers: list[Any], /) -> None: ...
    def replaced(self, wrapper: int, layout: int, buffers: list[Any], /) -> None: ...
    def lone(self, wrapper: int, point: int, layout: int, parameters: list[Any], /) -> None: ...
    def step(
        self, wrapper: int, lr: float, scale: float, found_inf: bool, skipped: bool, layout: int, /,
    ) -> None: ...
    def batch(
        self, wrapper: int, n_samples: int, n_tokens: int, denominator: float, declared: str, /,
    ) -> None: ...
    def sample(self, wrapper: int, split: str, ids: list[int], /) -> None: ...
    def sample_at(
        self, wrapper: int, sync: int, micro: int, opt: int, epoch: int, split: str, ids: list[int], /,
    ) -> None: ...
    def data(self, wrapper: int, part: int, split: str, source: str, tensors: list[Any], /) -> None: ...
    def input(self, wrapper: int, argument: str, values: Any, n_rows: int, /) -> None: ...
    def epoch(
        self, split: str, sampler: str, generator_key: int, order: Any, dataset_size: int,
        n_replicas: int, per_rank: int, shuffle: bool, drop_last: bool, pads: bool, /,
    ) -> None: ...
    def group(self, group: int, members: list[int], /) -> None: ...
    def posted(
        self, wrapper: int, group: int, op: int, reduce: int, dtype: int, cuda: bool, is_async: bool,
        root: int, peer: int, tag: int, count: int, splits: int, layout: int, file: str, line: int,
        scope: str, /,
    ) -> int: ...
    def posted_own(
        self, wrapper: int, group: int, op: int, tensors: list[Any], is_async: bool, root: int, file: str,
        line: int, scope: str, /,
    ) -> int: ...
    def completed(self, wrapper: int, ticket: int, ok: bool, deadline: float, /) -> None: ...
    def group_of(self, ticket: int, /) -> int: ...
    def leave_out(self, wrapper: int, group: int, n: int, /) -> None: ...
    def seq_of(self, ticket: int, /) -> int: ...
    def environment(self, world: int, local_rank: int, node: str, device: str, schema: str, /) -> None: ...
    def phase(self, wrapper: int, phase: int, /) -> None: ...
    def loss(
        self, wrapper: int, function: str, reduction: int, value: float, denominator: float, n_terms: int,
        n_rows: int, graph: str, /,
    ) -> None: ...
    def clip(
        self, wrapper: int, kind: int, limit: float, norm_type: float, norm: float, factor: float,
        layout: int, whole: bool, own: float, /,
    ) -> None: ...
    def options(
        self, wrapper: int, optimizer: str, group: int, layout: int, options: int, values: list[float], /,
    ) -> None: ...
    def zero_grad(self, wrapper: int, to_none: bool, layout: int, /) -> None: ...
    def comm_hook(self, wrapper: int, effect: int, /) -> None: ...
    def rng(self, wrapper: int, stream: str, shared: bool, worker: int, state: Any, /) -> None: ...
    def epoch_annotation(
        self, wrapper: int, split: str, sampler: str, generator_key: int, order: Any, dataset_size: int,
        n_replicas: int, per_rank: int, shuffle: bool, drop_last: bool, pads: bool, /,
    ) -> None: ...
    def metric(
        self, wrapper: int, name: str, value: float, numerator: float, denominator: float,
        parts: list[float], /,
    ) -> None: ...
    def training(self, number: int, /) -> None: ...
    def digest(self, tensor: Any, /) -> int: ...
    def touch(
        self, wrapper: int, written: bool, operation: str, file: str, line: int, group: int, seq: int,
        call: str, receives: bool, posted_at: str, /,
    ) -> None: ...
    def exchange(
        self, wrapper: int, call: str, reduce: int, group: int, seq: int, ranks: int, step: int,
        called_at: str, join: int, answered: bool, scaled: bool, digest: int, dropped: bool, /,
    ) -> None: ...
    def decision(self, wrapper: int, name: str, value: int, /) -> None: ...
    def configuration(self, wrapper: int, name: str, data: str, value: str, /) -> None: ...
    def buffer_policy(self, wrapper: int, layout: int, policy: str, /) -> None: ...
    def digest_of_file(self, path: str, /) -> int: ...
    def snapshot(self, wrapper: int, action: str, step: int, detail: str, digest: int, /) -> None: ...
    def log(self, about: int, text: str, /) -> None: ...
    def end(self, outcome: int, detail: str, reason: int, /) -> None: ...
    def end_for_now(self, outcome: int, detail: str, /) -> None: ...
    def flush(self) -> None: ...
