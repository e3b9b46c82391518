"""More scenarios whose digests are held against PyTorch's."""
from __future__ import annotations

from pathlib import Path

import crosscheck_test
import pytest

MANY = 60


@pytest.mark.parametrize("seed", range(crosscheck_test.FEW, MANY))
def test_a_scenario_has_the_digests_of_pytorch(seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    crosscheck_test.test_a_scenario_has_the_digests_of_pytorch(seed, tmp_path, capfd)
