"""Ranks that end before their program does: after a number of steps, or in the middle of a file that they save.

Steps are those of optimizers, seen by PyTorch's public hook. Saves are calls of torch.save with a path
or an open file.
"""
from __future__ import annotations

import io
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch.optim import optimizer as optimizers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def install(steps: int, torn: Mapping[int, int], before_death: Callable[[], None]) -> None:
    """Args:
        steps: of one optimizer, after which the rank ends as by sys.exit(0); 0 = no end.
        torn: percent of the bytes that the save of a number writes before its process is killed.
        before_death: called then.
    """
    if steps:
        _end_after(steps)
    if torn:
        _tear(torn, before_death)


def _end_after(steps: int) -> None:
    taken: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        taken[optimizer] = taken.get(optimizer, 0) + 1
        if taken[optimizer] >= steps:
            raise SystemExit(0)

    optimizers.register_optimizer_step_post_hook(after)  # type: ignore[attr-defined]


def _tear(torn: Mapping[int, int], before_death: Callable[[], None]) -> None:
    real = torch.save
    n_saves = 0

    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal n_saves
        number = n_saves if _is_file(f) else -1
        n_saves += number >= 0
        if number not in torn:
            real(obj, f, *args, **kwargs)
            return
        whole = _bytes_of(lambda target: real(obj, target, *args, **kwargs), f)
        _write(f, whole[:len(whole) * torn[number] // 100])
        before_death()
        os.kill(os.getpid(), signal.SIGKILL)

    for owner in (torch, torch.serialization):
        setattr(owner, "save", save)


def _is_file(target: Any) -> bool:
    """A path or an open file, and no buffer in memory."""
    if isinstance(target, (str, os.PathLike)):
        return True
    try:
        return isinstance(target.fileno(), int)
    except (AttributeError, OSError):
        return False


def _bytes_of(save: Callable[[Any], Any], target: Any) -> bytes:
    """What a whole save writes. The name of a path is part of it."""
    if not isinstance(target, (str, os.PathLike)):
        buffer = io.BytesIO()
        save(buffer)
        return buffer.getvalue()
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        beside = Path(folder) / Path(target).name
        save(beside)
        return beside.read_bytes()


def _write(target: Any, part: bytes) -> None:
    if isinstance(target, (str, os.PathLike)):
        Path(target).write_bytes(part)
    else:
        target.write(part)
        target.flush()
