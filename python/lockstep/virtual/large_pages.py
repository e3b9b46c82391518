"""Cheaper forks for a process that is forked often.

A fork copies a table entry for each page that was ever written: 60,000 of 4 KiB once PyTorch is imported, which take most
of its 6 to 8 ms. Linux can join 512 of them into one (MADV_COLLAPSE, from 6.1 on). That costs what 40 to 80 forks
save (measured: 0.16 to 0.39 s, against 4.5 to 5.5 ms a fork), so it is done once that many have been seen: whatever comes then, it
was at most twice as dear as the better choice.
"""
from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORKS = 80
LARGE = 2 << 20
MOST_BYTES = 1 << 30  # Joined at once: what a script or a test holds besides is left alone.
_COLLAPSE = 25
_FULL = 0.8  # Of a region: the rest would begin to take memory.
_REGION = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0\b")
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def join_pages() -> int:
    """Joins the pages of this process's private memory. Contents and addresses stay. Returns: how many large ones
    there are then; 0 where the system has none or is set to have none."""
    try:
        if "[never]" in _SETTING.read_text():
            return 0
        starts = list(_starts(Path("/proc/self/smaps").read_text()))
    except OSError:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return sum(madvise(start, LARGE, _COLLAPSE) == 0 for start in starts[:MOST_BYTES // LARGE])


def _starts(smaps: str) -> Iterator[int]:
    """Of all large pages that would lie in regions which are written to almost everywhere."""
    region: tuple[int, int] | None = None
    for line in smaps.splitlines():
        first = line.partition(" ")[0]
        if "-" in first:
            found = _REGION.match(line)
            region = (int(found[1], 16), int(found[2], 16)) if found else None
        elif first == "Anonymous:" and region is not None:
            begin, end = region
            if int(line.split()[1]) * 1024 >= _FULL * (end - begin):
                yield from range(-(-begin // LARGE) * LARGE, end - LARGE + 1, LARGE)


@dataclass
class Forks:
    """How often this process has been forked."""

    count: int = 0
    join: Callable[[], object] = join_pages

    def add(self, n: int) -> None:
        before, self.count = self.count, self.count + n
        if before < FORKS <= self.count:
            self.join()
