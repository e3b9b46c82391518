"""c10d's process group, as virtual ranks have it: every call goes to the coordinator.

A Python subclass of ProcessGroup, with the names of old and new versions of PyTorch. Works reach the
script as they are made here; those that C++ takes (DDP's own, functional collectives) are wrapped by
PyTorch, which calls wait() and get_future().
"""
from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend  # type: ignore[attr-defined]

from lockstep.enums import CollectiveOp, ReduceOp
from lockstep.torch.sites import site
from lockstep.virtual import monitored, sparse, wire
from lockstep.virtual.connection import Refused
from lockstep.virtual.elements import default_reduce, elements_of, reduce_of
from lockstep.virtual.timeouts import seconds_of
from lockstep.virtual.wire import PostFlag, RequestFlag, RequestKind
from lockstep.virtual.works import Call, DoneWork, ManyWorks, VirtualWork, copy_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.virtual.rank import Rank

BACKEND = "lockstep"  # The name that C++ is given. Never "gloo": the reducer's logger would cast to that class.
_ALIGNMENT = 64
_kept: list[Any] = []  # C++ holds groups and backends, but not their Python halves.
_IN_PLACE = (CollectiveOp.ALL_REDUCE, CollectiveOp.BROADCAST, CollectiveOp.REDUCE)
_COMPUTING = (CollectiveOp.ALL_REDUCE, CollectiveOp.REDUCE, CollectiveOp.REDUCE_SCATTER)


@dataclass
class Hooked:
    """What hooks on calls are given: the fields of PyTorch's own PreHookArgs and PostHookArgs."""

    name: str
    op_id: int
    input_tensors: list[torch.Tensor]
    output_tensors: list[torch.Tensor]
    root: int
    async_op: bool
    work: Any = None


@dataclass
class Asked:
    """One call as c10d asks for it."""

    op: CollectiveOp
    hook: str  # As PyTorch's hooks name it; "": they see nothing of it.
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    value: Any  # Of the work's future.
    reduce: Any = None
    root_or_peer: int = -1
    tag: int = 0
    flags: int = 0
    timeout: Any = None
    is_async: bool = True
    expires: bool = False
    input_splits: list[int] = field(default_factory=list)
    output_splits: list[int] = field(default_factory=list)


class _Backend(Backend):  # type: ignore[misc]
    """C++ asks a registered backend for the group's name and devices."""

    def getBackendName(self) -> str:
        return BACKEND

    _get_backend_name = getBackendName
    name = getBackendName


class VirtualGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A group of virtual ranks."""

    supports_coalescing = False
    supports_splitting = False
    supports_time_estimate = False
    bound_device_id = None

    def __init__(self, rank: Rank, options: Any, asked_for: str) -> None:
        super().__init__(options.group_rank, options.group_size)
        members = [int(member) for member in options.global_ranks_in_group]
        members = members or list(range(options.group_size))
        _require_own_place(rank, members, int(options.group_rank))
        self.members = members
        self.asked_for = asked_for  # "gloo", "nccl"
        self.timeout_s = seconds_of(options.timeout)
        self._rank = rank
        self._name = str(options.group_id)
        self._desc = "undefined"
        self._handle = rank.connection.open_group(self._name, members)
        self._open = True
        self._n_ops = 0
        self._before: dict[int, Callable[[Any], None]] = {}
        self._after: dict[int, Callable[[Any], None]] = {}
        self._coalescing: list[VirtualWork] | None = None
        self.monitored: int = 0
        below = _Backend(options.group_rank, options.group_size)
        _kept.extend((self, below))
        self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        for device in ("cpu", "cuda"):
            self._register_backend(torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, below)

    # -- what c10d asks about the group
    @property
    def group_name(self) -> str:
        return self._name

    pg_name = group_name

    @property
    def group_desc(self) -> str:
        return self._desc

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), torch.device("cuda")]

    @property
    def options(self) -> Any:
        return self

    def _get_backend(self, device: Any) -> Any:
        return self

    def getBackendName(self) -> str:
        return BACKEND

    _get_backend_name = getBackendName
    name = getBackendName

    def _set_group_name(self, name: str) -> None:
        self._name = name
        super()._set_group_name(name)

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc
        super()._set_group_desc(desc)

    def _get_sequence_number_for_group(self) -> int:
        return self._n_ops

    def _set_sequence_number_for_group(self) -> None:
        self._n_ops = 0

    def set_timeout(self, timeout: Any) -> None:
        self.timeout_s = seconds_of(timeout)

    _set_default_timeout = set_timeout
    setTimeout = set_timeout

    def shutdown(self) -> None:
        if self._open and self._rank.connection.is_mine:
            self._open = False
            self._rank.connection.send(RequestKind.CLOSE_GROUP, body=wire.I32.pack(self._handle))

    def abort(self) -> None:
        self.shutdown()

    # -- hooks on calls: PyTorch's own sit in C++ functions that a Python group replaces
    def register_pre_hook(self, hook_id: int, hook: Callable[[Any], None]) -> None:
        self._before[hook_id] = hook

    def unregister_pre_hook(self, hook_id: int) -> None:
        del self._before[hook_id]

    def register_post_hook(self, hook_id: int, hook: Callable[[Any], None]) -> None:
        self._after[hook_id] = hook

    def unregister_post_hook(self, hook_id: int) -> None:
        del self._after[hook_id]

    # -- one call
    def post(self, asked: Asked) -> VirtualWork:
        """Posts a call. Returns: its work, which is not waited for yet."""
        if not self._open:
            raise RuntimeError(f"the process group {self._name!r} was destroyed")
        if not asked.hook:
            return self._send(asked)
        self._n_ops += 1
        hooked = Hooked(asked.hook, self._n_ops, asked.inputs, asked.outputs, asked.root_or_peer,
                        asked.is_async)
        for hook in list(self._before.values()):
            hook(hooked)
        work = self._send(asked)
        hooked.work = work
        for hook in list(self._after.values()):
            hook(hooked)
        if self._coalescing is not None:
            self._coalescing.append(work)
        return work

    def _send(self, asked: Asked) -> VirtualWork:
        rank = self._rank
        main = (asked.inputs or asked.outputs or [None])[0]
        dtype = main.dtype if main is not None else torch.uint8
        kind, units = elements_of(dtype, asked.op in _COMPUTING)
        reduce, factor = (reduce_of(asked.reduce, dtype, self.asked_for) if asked.op in _COMPUTING
                          else (ReduceOp.SUM, 1.0))
        placed = _Placed(rank, asked, units)
        timeout_s = seconds_of(asked.timeout) or self.timeout_s or 0.0
        file, line = site(sys._getframe(2))
        connection = rank.connection
        ticket = connection.new_ticket()
        post = wire.Post(
            group=self._handle, op=asked.op, dtype=kind, reduce=reduce,
            flags=asked.flags | (PostFlag.ASYNC if asked.is_async else 0),
            root_or_peer=asked.root_or_peer, tag=asked.tag, premul=factor,
            timeout_ns=int(timeout_s * 1e9), file=connection.name(file) if file else wire.NO_NAME,
            line=line, scope=rank.scope(), inputs=placed.inputs, outputs=placed.outputs,
            input_splits=[split * units for split in asked.input_splits],
            output_splits=[split * units for split in asked.output_splits])
        what = f"{asked.op.name.lower()} of {sum(t.numel() for t in asked.inputs or asked.outputs)} {dtype}"
        call = Call(rank.calls, ticket, what, placed.block, placed.results, timeout_s, self.asked_for)
        connection.send(RequestKind.POST, flags=RequestFlag.EXPIRES if asked.expires else 0, ticket=ticket,
                        body=post.encode())
        rank.calls.posted(call)
        return VirtualWork(call, rank.calls, asked.value)

    # -- collectives
    def allreduce(self, tensors: Any, opts: Any = None, **given: Any) -> Any:
        tensors = _listed(tensors)
        if tensors[0].is_sparse:
            return self._sparse(tensors, opts)
        how = _how(opts, given)
        return self.post(Asked(CollectiveOp.ALL_REDUCE, "ALLREDUCE", tensors, tensors, tensors,
                               flags=PostFlag.COALESCED if len(tensors) > 1 else 0, **how))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None, **given: Any) -> Any:
        tensors = _listed(tensors)
        return self.post(Asked(CollectiveOp.ALL_REDUCE, "ALLREDUCE_COALESCED", tensors, tensors, tensors,
                               flags=PostFlag.COALESCED, **_how(opts, given)))

    def allreduce_sparse(self, tensors: Any, opts: Any = None) -> Any:
        return self._sparse(_listed(tensors), opts)

    def _sparse(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        reduce, _ = reduce_of(_how(opts, {})["reduce"], tensors[0].dtype, self.asked_for)
        if reduce is not ReduceOp.SUM:
            raise RuntimeError("unsupported reduction operation (allreduce of sparse tensors only works with "
                               "ReduceOp.SUM)")
        sparse.all_reduce(self, tensors[0])
        return DoneWork(tensors)

    def broadcast(self, tensors: Any, opts: Any = None, root: int = 0, timeout: Any = None) -> Any:
        tensors = _listed(tensors)
        how = _how(opts, {"root": root, "timeout": timeout}, reduces=False)
        return self.post(Asked(CollectiveOp.BROADCAST, "BROADCAST", tensors, tensors, tensors, **how))

    def reduce(self, tensors: Any, opts: Any = None, root: int = 0, **given: Any) -> Any:
        tensors = _listed(tensors)
        how = _how(opts, {"root": root, **given})
        return self.post(Asked(CollectiveOp.REDUCE, "REDUCE", tensors, tensors, tensors, **how))

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> Any:
        lists = outputs if isinstance(outputs[0], (list, tuple)) else [outputs]
        how = _how(opts, {"timeout": timeout}, reduces=False)
        return self.post(Asked(CollectiveOp.ALL_GATHER, "ALLGATHER", _listed(inputs), list(lists[0]), lists,
                               **how))

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        how = _how(opts, {}, reduces=False)
        works = [self.post(Asked(CollectiveOp.ALL_GATHER, "ALLGATHER_COALESCED", [tensor],
                                 [row[place] for row in outputs], outputs, **how))
                 for place, tensor in enumerate(inputs)]
        return ManyWorks(works, outputs)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None,
                          timeout: Any = None) -> Any:
        how = _how(opts, {"timeout": timeout}, reduces=False)
        return self.post(Asked(CollectiveOp.ALL_GATHER, "ALLGATHER_BASE", [input], [output], [output],
                               flags=PostFlag.TENSOR, **how))

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return ManyWorks([self.all_gather_single(output, given, opts)
                          for output, given in zip(outputs, inputs)], outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, **given: Any) -> Any:
        outputs = _listed(outputs)
        parts = inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs
        return self.post(Asked(CollectiveOp.REDUCE_SCATTER, "REDUCE_SCATTER", list(parts), outputs, outputs,
                               **_how(opts, given)))

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None,
                              **given: Any) -> Any:
        return self.post(Asked(CollectiveOp.REDUCE_SCATTER, "REDUCE_SCATTER_BASE", [input], [output], [output],
                               flags=PostFlag.TENSOR, **_how(opts, given)))

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return ManyWorks([self.reduce_scatter_single(output, given, opts)
                          for output, given in zip(outputs, inputs)], outputs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any = None, root: int = 0, timeout: Any = None) -> Any:
        how = _how(opts, {"root": root, "timeout": timeout}, reduces=False)
        mine = self.rank() == how["root_or_peer"]
        rows = (outputs[0] if outputs and isinstance(outputs[0], (list, tuple)) else outputs) if mine else []
        return self.post(Asked(CollectiveOp.GATHER, "GATHER", _listed(inputs), list(rows), outputs, **how))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None, root: int = 0, timeout: Any = None) -> Any:
        how = _how(opts, {"root": root, "timeout": timeout}, reduces=False)
        outputs = _listed(outputs)
        mine = self.rank() == how["root_or_peer"]
        parts = (inputs[0] if inputs and isinstance(inputs[0], (list, tuple)) else inputs) if mine else []
        return self.post(Asked(CollectiveOp.SCATTER, "SCATTER", list(parts), outputs, outputs, **how))

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> Any:
        how = _how(opts, {"timeout": timeout}, reduces=False)
        return self.post(Asked(CollectiveOp.ALL_TO_ALL, "ALLTOALL", list(inputs), list(outputs), outputs, **how))

    def all_to_all_single(self, output: torch.Tensor, input: torch.Tensor, output_splits: Any,
                          input_splits: Any, opts: Any = None, timeout: Any = None) -> Any:
        how = _how(opts, {"timeout": timeout}, reduces=False)
        return self.post(Asked(
            CollectiveOp.ALL_TO_ALL, "ALLTOALL_BASE", [input], [output], [output], flags=PostFlag.TENSOR,
            input_splits=_split_elements(input, input_splits, self.size()),
            output_splits=_split_elements(output, output_splits, self.size()), **how))

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None, timeout: Any = None) -> Any:
        how = _how(opts, {"timeout": timeout}, reduces=False)
        return self.post(Asked(CollectiveOp.BARRIER, "BARRIER", [], [], [], **how))

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        seconds = getattr(timeout, "timeout", timeout)
        monitored.barrier(self, seconds, wait_all_ranks)

    monitoredBarrier = monitored_barrier

    # -- messages
    def send(self, tensors: Any, peer: int, tag: int = 0, *, is_async: bool = True) -> Any:
        tensors = _listed(tensors)
        return self.post(Asked(CollectiveOp.SEND, "SEND", tensors, [], tensors, root_or_peer=peer, tag=tag,
                               is_async=is_async))

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        tensors = _listed(tensors)
        return self.post(Asked(CollectiveOp.RECV, "RECV", [], tensors, tensors, root_or_peer=peer, tag=tag))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        tensors = _listed(tensors)
        return self.post(Asked(CollectiveOp.RECV, "RECV_ANY_SOURCE", [], tensors, tensors, tag=tag,
                               flags=PostFlag.ANY_SOURCE))

    recvAnysource = recv_anysource

    # -- several calls as one
    def _start_coalescing(self, device: Any = None) -> None:
        self._coalescing = []

    def _end_coalescing(self, device: Any = None) -> Any:
        works, self._coalescing = self._coalescing or [], None
        return ManyWorks(works, [])

    def split_group(self, *_: Any, **__: Any) -> Any:
        raise Refused("ProcessGroup.split_group is not simulated: use torch.distributed.new_group")

    def merge_remote_group(self, *_: Any, **__: Any) -> Any:
        raise Refused("ProcessGroup.merge_remote_group is not simulated")

    def new_window(self, *_: Any, **__: Any) -> Any:
        raise Refused("one-sided windows of a process group are not simulated")

    def reconfigure(self, *_: Any, **__: Any) -> Any:
        raise Refused("reconfiguring a process group is not simulated")


class _Placed:
    """The buffers of a call in the arena: contributions are copied, results have their room. What works
    in place has one room for both."""

    def __init__(self, rank: Rank, asked: Asked, units: int) -> None:
        arena = rank.calls.arena
        rooms: list[tuple[int, int]] = []  # Offset in the block, elements.
        total = 0
        own_outputs = [] if asked.op in _IN_PLACE else asked.outputs
        for tensor in (*asked.inputs, *own_outputs):
            rooms.append((total, tensor.numel() * units))
            total += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
        offset = arena.take(total)
        self.block: tuple[int, int] = (offset, total)
        placed = [(offset + place, count) for place, count in rooms]
        self.inputs: list[tuple[int, int]] = placed[:len(asked.inputs)]
        self.outputs: list[tuple[int, int]] = self.inputs if asked.op in _IN_PLACE else placed[len(asked.inputs):]
        for tensor, (place, _) in zip(asked.inputs, self.inputs):
            copy_in(arena.address + place, tensor)
        self.results: list[tuple[torch.Tensor, int]] = [(tensor, arena.address + place)
                        for tensor, (place, _) in zip(asked.outputs, self.outputs)]


def _listed(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _how(opts: Any, given: dict[str, Any], reduces: bool = True) -> dict[str, Any]:
    """The fields of Asked that options or keywords decide. c10d's functions pass options; short forms
    pass the operation itself, or a timeout."""
    how: dict[str, Any] = {"timeout": getattr(opts, "timeout", given.get("timeout")),
                           "is_async": bool(getattr(opts, "asyncOp", True))}
    if hasattr(opts, "rootRank"):
        how["root_or_peer"] = int(opts.rootRank)
    elif "root" in given:
        how["root_or_peer"] = int(opts if isinstance(opts, int) else given["root"])
    if reduces:
        direct = opts if opts is not None and not hasattr(opts, "timeout") else given.get("op")
        how["reduce"] = getattr(opts, "reduceOp", None) or direct or default_reduce()
    return how


def _split_elements(tensor: torch.Tensor, splits: Any, n: int) -> list[int]:
    """Rows of the first dimension as elements; empty where they are even."""
    if not splits:
        return []
    if len(splits) != n:
        raise RuntimeError(f"Number of tensor splits not equal to group size ({len(splits)} of {n})")
    if sum(splits) != tensor.size(0):
        raise RuntimeError(f"Split sizes doesn't match total dim 0 size ({sum(splits)} of {tensor.size(0)})")
    row = tensor.numel() // tensor.size(0) if tensor.size(0) else 0
    return [int(split) * row for split in splits]


def _require_own_place(rank: Rank, members: list[int], place: int) -> None:
    mine = members[place] if place < len(members) else -1
    if mine != rank.connection.rank or max(members) >= rank.connection.world:
        raise Refused(
            f"virtual rank {rank.connection.rank} of {rank.connection.world} (process {os.getpid()}) joins a "
            f"group of ranks {members} as rank {mine}: under lockstep torchrun a script's ranks are those "
            f"that were started")
