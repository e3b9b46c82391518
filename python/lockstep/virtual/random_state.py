"""Random states as the ranks of a launcher have them: each is a fresh interpreter, so that generators
that no line seeds differ. Whether PyTorch's own does depends on its version."""
from __future__ import annotations

import random
import sys
from typing import Any

import torch

FIXED_SEED = 67280421310721  # Of interpreters whose PyTorch draws none from the system.


class Saved:
    """The states before something that must leave no mark."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._python = random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy: Any = numpy.random.get_state() if numpy is not None else None

    def restore(self) -> None:
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


def seed_rank(seed: int, rank: int, attempt: int, forked: bool = False) -> None:
    """What an interpreter draws from the system at its start: other numbers in each rank, the same ones
    in each run.

    Args:
        forked: as in the child of a fork, in which Python seeds its own generator alone.
    """
    text = f"lockstep {seed} {attempt} {rank}"
    random.seed(text)
    if forked:
        return
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(random.Random(text + " numpy").getrandbits(32))
    if torch.initial_seed() != FIXED_SEED:
        torch.default_generator.manual_seed(random.Random(text + " torch").getrandbits(63))
