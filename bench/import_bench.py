#!/usr/bin/env python3
"""What `import lockstep` costs a process that may never need it: import_bench.py [ROUNDS]

Fresh interpreters with and without the import, alternating; a row is the median and the least time, by the
clock and of the processor, and what the import adds to the medians. The first round, which compiles the
files, does not count. PYTHONPATH=build/python, or a Python that has the package.
"""
from __future__ import annotations

import os
import statistics
import sys
import time


def cost(code: str) -> tuple[float, float]:
    """Milliseconds by the clock, and of the processor."""
    started = time.perf_counter()
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
    _, status, used = os.wait4(child, 0)
    assert status == 0
    return (time.perf_counter() - started) * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def main(rounds: int) -> None:
    codes = {"nothing": "pass", "import lockstep": "import lockstep"}
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in codes}
    for name, code in [*codes.items()] * (rounds + 1):
        costs[name].append(cost(code))
    print(f"{'':16} {'clock':^31}   {'processor':^31}")
    for name in codes:
        cells = []
        for which in (0, 1):
            took, bare = ([one[which] for one in costs[row][1:]] for row in (name, "nothing"))
            middle = statistics.median(took)
            cells.append(f"{middle:6.1f} ms, least {min(took):6.1f}, adds {middle - statistics.median(bare):5.1f}")
        print(f"{name:16} {'   '.join(cells)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
