"""A thousand random healthy scripts and a hundred and thirty broken ones: no false alarm, and no bug that goes unnoticed."""
from __future__ import annotations

import os
from pathlib import Path

import pytest
from drawn_scripts import Plant
from drawn_scripts_test import FIRST, complaint

N_SCRIPTS = int(os.environ.get("LOCKSTEP_SCRIPTS", "1000"))
N_BROKEN = 10


@pytest.mark.parametrize("part", range(10))
def test_nothing_is_said_against_healthy_scripts(part: int, tmp_path: Path) -> None:
    said = {seed: complaint(seed, tmp_path) for seed in range(FIRST + part, FIRST + N_SCRIPTS, 10)}
    assert len(said) == N_SCRIPTS // 10
    assert not any(said.values()), "\n".join(filter(None, said.values()))


@pytest.mark.parametrize("plant", Plant)
def test_a_bug_is_noticed_in_every_script_that_holds_it(plant: Plant, tmp_path: Path) -> None:
    assert [seed for seed in range(FIRST, FIRST + N_BROKEN) if not complaint(seed, tmp_path, plant)] == []
