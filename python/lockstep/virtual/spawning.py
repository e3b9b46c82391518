"""torch.multiprocessing.spawn under virtual ranks: every rank runs the script as far as spawn(), which
then calls the function in it, as the rank that it is."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.multiprocessing as mp

from lockstep.virtual.connection import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.virtual.rank import Rank


class _Ended:
    """What spawn() returns to who does not join: the function has run."""

    processes: tuple[Any, ...] = ()

    def pids(self) -> list[int]:
        return []

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        return True


def install(rank: Rank) -> None:
    def start(name: str, fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int, join: bool) -> Any:
        connection = rank.connection
        if not connection.is_mine:
            raise Refused(f"torch.multiprocessing.{name} in a process that rank {connection.rank} forked is not "
                          "simulated")
        if nprocs != connection.world:
            raise Refused(f"torch.multiprocessing.{name} of {nprocs} processes in a job of {connection.world} virtual "
                          f"ranks: start with --nproc-per-node {nprocs}, so that each of them is a rank")
        if not join and any("Queue" in type(each).__name__ for each in args):
            raise Refused(f"torch.multiprocessing.{name} with a queue that the caller reads meanwhile is not simulated: "
                          "here the function is called in each rank, one of which fills the queue; let the script start no "
                          "processes of its own (Lightning: strategy='ddp')")
        fn(connection.rank, *args)
        return None if join else _Ended()

    def spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
              daemon: bool = False, start_method: str = "spawn") -> Any:
        return start("spawn", fn, args, nprocs, join)

    def start_processes(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1,
                        join: bool = True, daemon: bool = False, start_method: str = "spawn",
                        **_: Any) -> Any:
        return start("start_processes", fn, args, nprocs, join)

    for owner in (mp, mp.spawn if not callable(mp.spawn) else None):
        if owner is not None:
            owner.spawn = spawn
            owner.start_processes = start_processes
