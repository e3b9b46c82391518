"""c10d's stores, kept by the coordinator: a rank that waits for a key is known to wait for it."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from lockstep.virtual import wire
from lockstep.virtual.connection import Refused
from lockstep.virtual.timeouts import plain_seconds
from lockstep.virtual.wire import RequestFlag, StoreOp

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from lockstep.virtual.connection import Connection

DEFAULT_TIMEOUT_S = 300.0
_kept: list[Any] = []  # C++ holds a store, but not its Python half.
_connection: Callable[[], Connection]


def install(connection: Callable[[], Connection]) -> None:
    """Stores that are made from now on belong to this rank."""
    global _connection
    _connection = connection


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class VirtualStore(dist.Store):  # type: ignore[misc]
    """One key space of the world. Stores of other addresses or files have others: their keys begin with
    the place."""

    def __init__(self, place: str = "", timeout: timedelta | float | None = None) -> None:
        super().__init__()
        self._place = place
        self._seconds = plain_seconds(timeout, DEFAULT_TIMEOUT_S)
        _kept.append(self)

    def _key(self, key: str) -> bytes:
        if "\0" in key:
            raise ValueError("a key of a store cannot contain a zero byte")
        return (self._place + key).encode()

    def _ask(self, op: StoreOp, key: bytes, value: bytes = b"", expected: bytes = b"",
             seconds: float | None = None, expires: bool = False) -> bytes:
        limit = wire.NO_TIMEOUT if seconds is None else max(0, int(seconds * 1e9))
        try:
            return _connection().store(op, key, value, expected, limit,
                                       RequestFlag.EXPIRES if expires else 0)
        except TimeoutError as error:
            name = key.decode("utf-8", "replace").replace("\0", ", ")
            raise dist.DistStoreError(
                f"wait timeout after {(seconds or 0) * 1000:.0f}ms, keys: {name} {error}") from None
        except KeyError:
            raise dist.DistStoreError(f"no key {key.decode('utf-8', 'replace')}") from None

    def set(self, key: str, value: Any) -> None:
        self._ask(StoreOp.SET, self._key(key), _bytes(value))

    def get(self, key: str) -> bytes:
        return self._ask(StoreOp.GET, self._key(key), seconds=self._seconds)

    def add(self, key: str, value: int) -> int:
        answer = self._ask(StoreOp.ADD, self._key(key), str(int(value)).encode())
        return int(wire.I64.unpack(answer)[0])

    def append(self, key: str, value: Any) -> None:
        self._ask(StoreOp.APPEND, self._key(key), _bytes(value))

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        return self._ask(StoreOp.COMPARE_SET, self._key(key), _bytes(desired), _bytes(expected))

    def check(self, keys: list[str]) -> bool:
        return self._ask(StoreOp.CHECK, self._joined(keys)) == b"\x01"

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        # A limit that a call itself names is part of the program: it passes in virtual time.
        self._ask(StoreOp.WAIT, self._joined(keys), expires=timeout is not None,
                  seconds=self._seconds if timeout is None else plain_seconds(timeout, DEFAULT_TIMEOUT_S))

    def _joined(self, keys: list[str]) -> bytes:
        return b"\0".join(map(self._key, keys))

    def delete_key(self, key: str) -> bool:
        return self._ask(StoreOp.DELETE, self._key(key)) == b"\x01"

    def num_keys(self) -> int:
        if self._place:
            raise Refused(f"num_keys of a second store ({self._place}) is not simulated")
        return int(wire.I64.unpack(self._ask(StoreOp.NUM_KEYS, b""))[0])

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[Any]) -> None:
        for key, value in zip(keys, values):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        self._seconds = plain_seconds(timeout, DEFAULT_TIMEOUT_S)

    def clone(self) -> VirtualStore:
        return VirtualStore(self._place, self._seconds)

    def queue_push(self, key: str, value: Any) -> None:
        raise Refused("queues of a store (queue_push) are not simulated")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        raise Refused("queues of a store (queue_pop) are not simulated")

    def queue_len(self, key: str) -> int:
        raise Refused("queues of a store (queue_len) are not simulated")

    def list_keys(self) -> list[str]:
        raise Refused("list_keys of a store is not simulated")

    # C++ looks for some of them by its own names.
    compareSet = compare_set
    deleteKey = delete_key
    getNumKeys = num_keys
    hasExtendedApi = has_extended_api
    multiGet = multi_get
    multiSet = multi_set
    setTimeout = set_timeout


def place_of(host: str, port: int) -> str:
    """The world's own store is the one at MASTER_ADDR and MASTER_PORT."""
    own = (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
    return "" if (host, str(port)) == own else f"{host}:{port}/"


class VirtualTCPStore(VirtualStore):
    """Instead of dist.TCPStore."""

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None, is_master: bool = False,
                 timeout: timedelta | None = None, wait_for_workers: bool = True, multi_tenant: bool = False,
                 master_listen_fd: int | None = None, use_libuv: bool = True) -> None:
        super().__init__(place_of(host_name, port), timeout)
        self._host, self._port = host_name, port
        if world_size is not None and world_size > 0 and wait_for_workers:
            if self.add("init/", 1) == world_size:
                self.set("init/all", b"1")
            self.wait(["init/all"])

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        return self._port


class VirtualFileStore(VirtualStore):
    """Instead of dist.FileStore."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__(f"{os.path.abspath(file_name)}:")
        self._path = file_name

    @property
    def path(self) -> str:
        return self._path
