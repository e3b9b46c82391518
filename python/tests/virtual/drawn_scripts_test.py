"""Random healthy scripts end without a verdict and without a finding; with one bug in them, they do not."""
from __future__ import annotations

import collections
import os
from pathlib import Path

import pytest
from drawn_scripts import Plant, draw
from virtual_job import printed, run_virtual

FIRST = int(os.environ.get("LOCKSTEP_FIRST_SCRIPT", "0"))
MODES = ((), (), ("--serial",), ("--serial", "--strategy", "pct:depth=3"))


def complaint(seed: int, folder: Path, plant: Plant | None = None) -> str:
    """What is said against the script; empty for nothing."""
    drawn = draw(seed, plant)
    script = folder / "train.py"
    script.write_text(drawn.text)
    mode = MODES[seed % len(MODES)]
    outcome = run_virtual(script, drawn.ranks, *mode, *(("--seed", str(seed)) if mode else ()), arguments=(str(folder),))
    if outcome.ok:
        return ""
    return "\n".join([f"script {seed} on {drawn.ranks} ranks, which holds {', '.join(drawn.holds)}:",
                      outcome.found["outcome"], outcome.found["error"], outcome.found["wait_for"], str(outcome.report or ""),
                      printed(outcome)])


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 20))
def test_nothing_is_said_against_a_healthy_script(seed: int, tmp_path: Path) -> None:
    said = complaint(seed, tmp_path)
    assert not said, said + "\n" + draw(seed).text


@pytest.mark.parametrize("plant", Plant)
def test_a_bug_in_a_drawn_script_is_noticed(plant: Plant, tmp_path: Path) -> None:
    assert complaint(FIRST + list(Plant).index(plant), tmp_path, plant)


def test_scripts_are_drawn_from_the_seed_and_hold_everything() -> None:
    drawn = [draw(seed) for seed in range(300)]
    assert [each.text for each in drawn] == [draw(seed).text for seed in range(300)]
    assert len({each.text for each in drawn}) == 300
    held = collections.Counter(word for each in drawn for word in set(each.holds))
    assert min(held.values()) >= 3, held
    assert len(held) > 45, held
