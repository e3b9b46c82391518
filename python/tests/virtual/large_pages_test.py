"""Memory of a process that is forked often is joined to large pages once, and holds what it held."""
from __future__ import annotations

import hashlib
import mmap
from pathlib import Path

import pytest
from lockstep.virtual import large_pages, zygote
from lockstep.virtual.large_pages import FORKS, LARGE, Forks
from virtual_job import run_virtual

SMAPS = """\
00200000-00a00000 rw-p 00000000 00:00 0                                  [heap]
Size:               8192 kB
Anonymous:          7000 kB
01100000-01500000 rw-p 00000000 00:00 0
Anonymous:          4096 kB
02000000-04000000 rw-p 00000000 00:00 0
Anonymous:            16 kB
06000000-06400000 rw-s 00000000 00:01 7                                  /dev/zero (deleted)
Anonymous:          4096 kB
08000000-08400000 r--p 00000000 fe:00 9                                  /usr/lib/libc.so.6
Anonymous:          4096 kB
0a000000-0a400000 rw-p 00000000 fe:00 9                                  /usr/lib/libc.so.6
Anonymous:          4096 kB
"""


def test_whole_large_pages_of_private_memory_that_is_in_use_are_joined() -> None:
    # The first region has four of 2 MiB; the second begins and ends in the middle of one. A region that is
    # hardly written to would begin to take memory, and shared memory and files are not copied.
    assert list(large_pages._starts(SMAPS)) == [0x200000, 0x400000, 0x600000, 0x800000, 0x1200000]


def test_pages_are_joined_once_when_it_has_paid() -> None:
    joined: list[int] = []
    forks = Forks(join=lambda: joined.append(forks.count))
    for _ in range(2 * FORKS):
        forks.add(1)
    assert joined == [FORKS]
    forks = Forks(join=lambda: joined.append(-1))
    forks.add(FORKS - 1)
    assert joined == [FORKS]


def test_what_is_joined_holds_what_it_held() -> None:
    memory = mmap.mmap(-1, 8 * LARGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(b"".join(hashlib.blake2b(bytes([k % 251, k // 251 % 251])).digest() * 64 for k in range(8 * LARGE // 4096)))
    before = hashlib.sha256(memory).hexdigest()
    large_pages.join_pages()
    assert hashlib.sha256(memory).hexdigest() == before


def test_ranks_that_are_forked_afterwards_compute_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "job.py"
    script.write_text("import torch\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"
                      "x = torch.arange(4096.) * (1 + dist.get_rank())\ndist.all_reduce(x)\n"
                      "assert torch.equal(x, 3 * torch.arange(4096.))\n")
    joined: list[int] = []
    monkeypatch.setattr(zygote, "_forks", Forks(FORKS - 2, lambda: joined.append(large_pages.join_pages())))
    for _ in range(2):
        assert run_virtual(script, 2, "--no-record").ok
    assert len(joined) == 1
