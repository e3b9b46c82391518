"""Puts virtual ranks where a script asks for gloo, nccl or another backend. The script is not edited,
and get_backend() still answers what it asked for."""
from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlparse

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as C

from lockstep.virtual import store
from lockstep.virtual.connection import Refused
from lockstep.virtual.process_group import VirtualGroup
from lockstep.virtual.works import FUTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.virtual.rank import Rank

BACKENDS = ("gloo", "nccl", "ucc", "xccl", "mpi")
SCHEMES = ("env", "tcp", "file")
PLACE = (("rank", "RANK"), ("world_size", "WORLD_SIZE"))  # In a URL, and in the environment.


def install(rank: Rank) -> None:
    """In the process of a rank, before its script runs."""
    _install_backends(rank)
    _install_rendezvous(rank)
    _install_stores(rank)
    _install_logging()
    _refuse_rpc()
    FUTURES.install()
    rank.calls.backwards.install()


def _create(rank: Rank, name: str, options: Any, _backend_options: Any = None) -> VirtualGroup:
    return VirtualGroup(rank, options, name)


def _install_backends(rank: Rank) -> None:
    backend = dist.Backend
    for name in BACKENDS:
        # The registry refuses names that PyTorch knows, hence the plugin of a name that it does not.
        maker = functools.partial(_create, rank, name)
        if "LOCKSTEP" not in backend._plugins:
            backend.register_backend("lockstep", maker, extended_api=True, devices=["cpu", "cuda"])
        plugin = type(backend._plugins["LOCKSTEP"])(maker, True)
        backend._plugins[name.upper()] = plugin
        # Otherwise C++ takes the group for its own class of that name.
        backend.backend_type_map[name] = dist.ProcessGroup.BackendType.CUSTOM
    for check in ("is_nccl_available", "is_gloo_available"):
        for module in (dist, dist.distributed_c10d):
            setattr(module, check, lambda: True)


def _install_rendezvous(rank: Rank) -> None:
    def rendezvous(url: str, timeout: Any = None, **_: Any) -> Iterator[tuple[Any, int, int]]:
        parts = urlparse(url)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        _require_what_is_needed(parts.scheme, query)
        given = [_number(variable, query.get(key) or os.environ[variable]) for key, variable in PLACE]
        if given != [rank.connection.rank, rank.connection.world]:
            this = f"init_process_group of rank {given[0]} of {given[1]} in"
            if not rank.place.launched:
                raise Refused(f"{this} process {rank.connection.rank} of the {rank.connection.world} that "
                              "torch.multiprocessing.spawn started: those are the ranks; others, on other machines or "
                              "in another order, are not simulated")
            raise Refused(f"{this} virtual rank {rank.connection.rank} of "
                          f"{rank.connection.world}: start as many ranks as the script opens (--nproc-per-node)")
        yield _store_at(parts, timeout), rank.connection.rank, rank.connection.world

    handlers = sys.modules["torch.distributed.rendezvous"]
    for scheme in SCHEMES:
        handlers._rendezvous_handlers[scheme] = rendezvous  # type: ignore[attr-defined]


def _require_what_is_needed(scheme: str, query: dict[str, str]) -> None:
    """Raises what PyTorch does where neither the script nor the environment says which rank this is, or where to meet."""
    for key, variable in PLACE:
        if key not in query and not (scheme == "env" and os.environ.get(variable)):
            raise ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: "
                             + (f"environment variable {variable} expected, but not set" if scheme == "env"
                                else f"{key.replace('_', ' ')} parameter missing"))
    for variable in ("MASTER_ADDR", "MASTER_PORT") if scheme == "env" else ():
        if not os.environ.get(variable):
            raise ValueError(f"Error initializing torch.distributed using env:// rendezvous: environment variable {variable} "
                             "expected, but not set")
    if scheme == "env":
        _number("MASTER_PORT", os.environ["MASTER_PORT"])


def _number(variable: str, text: str) -> int:
    """Raises what PyTorch does, which names neither the variable nor how it came to its value."""
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{error}; it is the environment variable {variable}, which must be a whole number") from None


def _store_at(parts: Any, timeout: Any) -> store.VirtualStore:
    if parts.scheme == "file":
        return store.VirtualStore(f"{os.path.abspath(parts.path)}:", timeout)
    if parts.scheme == "tcp":
        return store.VirtualStore(store.place_of(parts.hostname or "", parts.port or 0), timeout)
    return store.VirtualStore("", timeout)


def _install_stores(rank: Rank) -> None:
    store.install(lambda: rank.connection)
    for module in (dist, C, dist.distributed_c10d, sys.modules["torch.distributed.rendezvous"]):
        for name, ours in (("TCPStore", store.VirtualTCPStore), ("FileStore", store.VirtualFileStore)):
            if hasattr(module, name):
                setattr(module, name, ours)


def _install_logging() -> None:
    """DDP's own report on itself would name the backend that C++ sees."""
    ddp = torch.nn.parallel.DistributedDataParallel
    real: Callable[[Any], dict[str, Any]] = ddp._get_ddp_logging_data

    def logged(self: Any) -> dict[str, Any]:
        environment = os.environ.get
        return {**real(self), "backend_name": dist.get_backend(self.process_group), "gloo_num_threads": 2,
                "gloo_socket_ifname": environment("GLOO_SOCKET_IFNAME", "N/A"),
                "gloo_device_transport": environment("GLOO_DEVICE_TRANSPORT", "N/A")}

    ddp._get_ddp_logging_data = logged


def _refuse_rpc() -> None:
    def init_rpc(*_: Any, **__: Any) -> None:
        raise Refused("torch.distributed.rpc is not simulated: its messages do not go through process groups")

    rpc = sys.modules.get("torch.distributed.rpc")
    if rpc is not None:
        rpc.init_rpc = init_rpc  # type: ignore[attr-defined]
