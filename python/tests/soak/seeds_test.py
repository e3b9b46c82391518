"""What does not depend on the schedule is equal under many of them."""
from __future__ import annotations

from pathlib import Path

from schedules_test import require_one_digest


def test_twenty_seeds_give_the_digest_of_the_parallel_run(tmp_path: Path) -> None:
    require_one_digest(tmp_path, 20)
