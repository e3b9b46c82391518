"""The bits of real Gloo on as many ranks as people test with: every set of options, every model."""
from __future__ import annotations

from pathlib import Path

import pytest
from equal_to_gloo_test import job_of, results
from models_equal_to_gloo_test import MODELS, check
from torch_jobs.unchanged_test import CONFIGURATIONS


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_job_of_eight_ranks_ends_with_the_bits_of_gloo(name: str, tmp_path: Path) -> None:
    virtual, real = results(job_of(name), 8, tmp_path)
    assert len(virtual) == 8 * 6
    assert virtual == real


@pytest.mark.parametrize("ranks", [4, 8])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_on_more_ranks_has_the_bits_of_gloo(name: str, ranks: int, tmp_path: Path) -> None:
    check(name, ranks, tmp_path)
