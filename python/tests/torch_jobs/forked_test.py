"""What the tests' own launcher promises."""
from __future__ import annotations

from pathlib import Path

import forked
import pytest
from forked import run_job

JOB = '''
import os
import time
import torch.distributed as dist

dist.init_process_group("gloo")
rank = os.getpid()
def a_helper_that_waits():
    open(f"{FOLDER}/{os.getpid()}.waits", "w").close()
    while os.getppid() == rank:
        time.sleep(0.1)
def a_rank_that_waits():
    open(f"{FOLDER}/{rank}.waits", "w").close()
    time.sleep(600)
if os.fork() == 0:
    a_helper_that_waits()
    os._exit(0)
a_rank_that_waits()
'''


def test_a_job_that_is_ended_says_where_its_ranks_and_their_forks_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked.Silence, "lasts", lambda *_: len(list(tmp_path.glob("*.waits"))) == 4)
    script = tmp_path / "job.py"
    script.write_text(JOB.replace("{FOLDER}", str(tmp_path)))
    ran = run_job(script, 2, None, tmp_path)
    assert ran.codes == [-15, -15], ran.output
    assert ran.output.count("in a_rank_that_waits") == 2, ran.output
    assert ran.output.count("in a_helper_that_waits") == 2, ran.output
