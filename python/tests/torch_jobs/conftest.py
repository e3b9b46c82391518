"""What tests of real jobs share: recordings of the broken scripts, which run once for all tests that read them."""
from __future__ import annotations

import functools
from pathlib import Path

import pytest
from forked import SCRIPTS, Recorded, Recorder, run_job


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    @functools.cache
    def of(script: str, ranks: int) -> Recorded:
        scratch = tmp_path_factory.mktemp(Path(script).stem)
        return Recorded(run_job(SCRIPTS / script, ranks, scratch / "trace", scratch), scratch / "trace")

    return of
