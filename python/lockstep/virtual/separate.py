"""Ranks with an interpreter each, in place of forks of one: what torchrun starts. Each imports PyTorch by itself, and
orders sets of strings by a hash seed of its own, so that a program which depends on that order shows it.
"""
from __future__ import annotations

import hashlib
import os
import pickle
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from lockstep.virtual import rank, zygote
from lockstep.virtual.arena import map_passed
from lockstep.virtual.output import Printer, pipes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST_SEEDS = 1 << 32  # Of PYTHONHASHSEED.


def run_attempt(places: Sequence[rank.Place], settings: rank.Settings, how: zygote.Coordinated, arguments: Sequence[str],
                program: Callable[[], Any], printer: Printer, store: Sequence[bytes] = ()) -> Any:
    """As zygote.run_attempt. Requires: the program can be pickled."""
    world = zygote.World(len(places), how.arena_mb << 20, passed=True)
    outputs = [pipes() for _ in places]
    pids = []
    for place, (_, writers), (_, own), memory in zip(places, outputs, world.pairs, world.passed_descriptors):
        reading, writing = os.pipe()
        given = [str(number) for number in (reading, own.fileno(), memory)]
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, *given], pass_fds=[reading, own.fileno(), memory],
            stdout=writers[0], stderr=writers[1],
            env={"OMP_NUM_THREADS": "1", **os.environ, "PYTHONHASHSEED": str(_hash_seed(settings.seed, place))})
        os.close(reading)
        with open(writing, "wb") as pipe:
            pickle.dump((os.getpid(), place, world.arena_bytes, settings, tuple(arguments), program), pipe)
        pids.append(process.pid)
        process.returncode = 0  # The coordinator waits for it.
        for end in writers:
            os.close(end)
    printer.follow([(place.rank, readers) for place, (readers, _) in zip(places, outputs)])
    try:
        return world.coordinate(pids, how, store)
    finally:
        printer.finish()


def _hash_seed(seed: int, place: rank.Place) -> int:
    """Another one for each rank and attempt, the same ones in each run."""
    text = f"lockstep {seed} {place.attempt} {place.rank}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "little") % (_MOST_SEEDS - 1) + 1


def _main() -> int:
    reading, own, memory = map(int, sys.argv[1:])
    with open(reading, "rb") as pipe:
        parent, place, arena_bytes, settings, arguments, program = pickle.load(pipe)
    rank.die_with_parent(parent)
    zygote.prepare()
    rank.as_new_interpreter(arguments, None)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
    return rank.run_program_as(place, socket.socket(fileno=own), map_passed(memory, arena_bytes), settings, program)


if __name__ == "__main__":
    code = _main()
    sys.stdout.flush()
    os._exit(code)
