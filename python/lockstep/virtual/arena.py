"""Memory that a rank shares with the coordinator: contributions go in, results come out."""
from __future__ import annotations

import ctypes
import mmap
import os
from bisect import insort

ALIGNMENT = 64
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class ArenaFull(MemoryError):
    """Calls that are under way hold more bytes than the arena has."""


def make_shared(n_bytes: int) -> mmap.mmap:
    """Anonymous memory that forks share: only pages that are touched cost anything, and nothing is
    left behind however the processes end."""
    return mmap.mmap(-1, n_bytes, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NORESERVE)


def make_passed(n_bytes: int) -> tuple[int, mmap.mmap]:
    """The same for a process that was not forked from this one. Returns: a descriptor to pass to it, too."""
    descriptor = os.memfd_create("lockstep")
    os.ftruncate(descriptor, n_bytes)
    return descriptor, mmap.mmap(descriptor, n_bytes)


def map_passed(descriptor: int, n_bytes: int) -> mmap.mmap:
    """What was made there, in the process that it was passed to."""
    memory = mmap.mmap(descriptor, n_bytes)
    os.close(descriptor)
    return memory


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class Arena:
    """Hands out blocks of shared memory: the first gap that is large enough, so that few pages are
    ever touched."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.size = len(memory)
        self.address = address_of(memory)
        self._memory = memory
        self._gaps: list[tuple[int, int]] = [(0, self.size)]  # Offset and bytes, by offset.

    def take(self, n_bytes: int) -> int:
        """The offset of a block. Raises ArenaFull."""
        wanted = -(-max(n_bytes, 1) // ALIGNMENT) * ALIGNMENT
        for place, (offset, size) in enumerate(self._gaps):
            if size >= wanted:
                if size == wanted:
                    del self._gaps[place]
                else:
                    self._gaps[place] = (offset + wanted, size - wanted)
                return offset
        raise ArenaFull(f"a call needs {n_bytes} bytes; the arena of {self.size >> 20} MiB has no gap of that "
                        f"size: raise --arena-mb")

    def give_back(self, offset: int, n_bytes: int) -> None:
        size = -(-max(n_bytes, 1) // ALIGNMENT) * ALIGNMENT
        insort(self._gaps, (offset, size))
        place = self._gaps.index((offset, size))
        if place + 1 < len(self._gaps) and offset + size == self._gaps[place + 1][0]:
            size += self._gaps.pop(place + 1)[1]
            self._gaps[place] = (offset, size)
        if place > 0:
            before, length = self._gaps[place - 1]
            if before + length == offset:
                self._gaps[place - 1:place + 1] = [(before, length + size)]

    @property
    def n_gaps(self) -> int:
        return len(self._gaps)

    @property
    def n_free(self) -> int:
        return sum(size for _, size in self._gaps)

    def read(self, offset: int, n_bytes: int) -> bytes:
        return self._memory[offset:offset + n_bytes]
