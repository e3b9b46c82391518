"""monitored_barrier, with Gloo's messages and texts: all send to rank 0, which then answers."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lockstep.enums import CollectiveOp
from lockstep.torch.groups import TIMED_OUT
from lockstep.virtual.timeouts import plain_seconds, seconds_of
from lockstep.virtual.works import VirtualWork

if TYPE_CHECKING:
    from lockstep.virtual.process_group import VirtualGroup

FIRST_TAG = 1 << 29  # Above any tag of a program's.
FAILED = -1


def barrier(group: VirtualGroup, timeout: Any, wait_all_ranks: bool) -> None:
    """Raises RuntimeError, as Gloo does, where ranks do not come in time (in virtual time)."""
    tag = FIRST_TAG + 2 * group.monitored
    group.monitored += 1
    limit = plain_seconds(timeout, 0.0)
    if group.rank() == 0:
        if limit == 0:
            raise _late("[Rank 0]: Rank 0 timed out in monitoredBarrier after 0 ms.")
        seconds = seconds_of(timeout) or group.timeout_s or 0.0
        _first(group, tag, seconds, wait_all_ranks)
    else:
        _other(group, tag)


def _late(text: str) -> RuntimeError:
    """Ranks have not come in time: in virtual time, so that a recorder has no clock that shows it."""
    error = RuntimeError(text)
    setattr(error, TIMED_OUT, True)
    return error


def _message(group: VirtualGroup, op: CollectiveOp, value: torch.Tensor, peer: int, tag: int,
             seconds: float = 0.0) -> VirtualWork:
    from lockstep.virtual.process_group import Asked

    # Gloo's are messages of its own as well, which no hook sees.
    sends = op is CollectiveOp.SEND
    return group.post(Asked(op, "", [value] if sends else [], [] if sends else [value], [value],
                            root_or_peer=peer, tag=tag, timeout=seconds or None, expires=seconds > 0))


def _first(group: VirtualGroup, tag: int, seconds: float, wait_all_ranks: bool) -> None:
    others = range(1, group.size())
    works = {peer: _message(group, CollectiveOp.RECV, torch.zeros(1, dtype=torch.int64), peer, tag, seconds)
             for peer in others}
    missing = []
    for peer, work in works.items():
        work.call.settle()
        if work.call.error is not None:
            missing.append(peer)
            if not wait_all_ranks:
                break
    word = torch.tensor([FAILED if missing else 0])
    answers = [_message(group, CollectiveOp.SEND, word, peer, tag + 1) for peer in others]
    milliseconds = int(seconds * 1000)
    if missing and wait_all_ranks:
        raise _late(f"[Rank 0]: Ranks {', '.join(map(str, missing))} failed to pass monitoredBarrier in "
                   f"{milliseconds} ms")
    if missing:
        raise _late(f"[Rank 0]: Rank {missing[0]} failed to pass monitoredBarrier in {milliseconds} ms\n"
                   f" Original exception: \n{works[missing[0]].call.error}")
    for answer in answers:
        answer.wait()


def _other(group: VirtualGroup, tag: int) -> None:
    word = torch.tensor([group.rank()])
    _message(group, CollectiveOp.SEND, word, 0, tag)
    work = _message(group, CollectiveOp.RECV, word, 0, tag + 1)
    work.call.settle()
    if work.call.error is not None or int(word) == FAILED:
        raise RuntimeError(f"Rank {group.rank()} successfully reached monitoredBarrier, but received errors while "
                           f"waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
                           f" Original exception: \n{work.call.error or 'rank 0 gave up'}")
