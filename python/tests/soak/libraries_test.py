"""What people train with on top of PyTorch runs unedited on virtual ranks, and ends with the bits of torchrun and Gloo."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lockstep
import pytest

SCRIPTS = Path(__file__).parent / "scripts"
LIBRARIES = Path(sys.prefix) / "libraries"
VIRTUAL = ("lockstep", "torchrun", "--no-record")
GLOO = ("torch.distributed.run", "--standalone")
pytestmark = pytest.mark.skipif(not (LIBRARIES / "ready.txt").exists(), reason="torch_environment.py FOLDER --libraries")


def python(given: tuple[str, ...], *command: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(Path(lockstep.__file__).parents[1]), str(LIBRARIES)])
    return subprocess.run([sys.executable, *given, *command], text=True, capture_output=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=paths))


def run(launcher: tuple[str, ...], script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(("-m", *launcher), "--nproc-per-node", "2", str(SCRIPTS / script), *arguments)


def digests(done: subprocess.CompletedProcess[str], n: int = 2) -> list[str]:
    lines = [line.partition("digest ")[2] for line in done.stdout.splitlines() if "digest " in line]
    assert len(lines) == n, done.stdout + done.stderr
    return sorted(lines)


@pytest.mark.parametrize("name", ["test_ops", "test_sync", "test_script"])
def test_a_script_of_accelerate_passes(name: str) -> None:
    done = run(VIRTUAL, "accelerate_script.py", name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok: 2 virtual ranks" in done.stdout
    assert "Num processes: 2" in done.stdout or name == "test_sync", "it was not one process"


def test_a_script_of_accelerate_that_hangs_on_gloo_ends_in_a_verdict() -> None:
    done = run(VIRTUAL, "accelerate_script.py", "test_distributed_data_loop")
    assert done.returncode == 1
    assert "op differs" in done.stderr
    assert "test_distributed_data_loop.py:" in done.stderr and "state.py:" in done.stderr


# In the styles in which people publish them; those that need PyTorch alone are in python/tests/virtual/published.
PUBLISHED = ("lightning_job.py", "fabric_job.py", "accelerate_job.py", "trainer_job.py")


@pytest.mark.parametrize("script", PUBLISHED)
def test_a_trainer_ends_with_the_bits_of_gloo(script: str, tmp_path: Path) -> None:
    argument = "ddp" if script == "lightning_job.py" else str(tmp_path)
    virtual = digests(run(VIRTUAL, script, argument))
    assert virtual == digests(run(GLOO, script, argument))
    assert virtual[0].split()[1] == virtual[1].split()[1], "ranks end with the same parameters"


def test_a_trainer_that_starts_its_ranks_itself_ends_with_the_bits_of_gloo() -> None:
    command = [str(SCRIPTS / "lightning_job.py"), "ddp_spawn"]
    found = [digests(python(given, *command), 1) for given in (("-m", "lockstep", "run", "--no-record"), ())]
    assert found[0] == found[1]


@pytest.mark.parametrize(("script", "says", "law"), [
    ("lightning_job.py", "devices=2", ""),  # It names the number of its ranks.
    ("fabric_job.py", "devices=2", ""),
    ("accelerate_job.py", "holds: 2 ranks", ""),
    ("trainer_job.py", "a forward draws random numbers, as dropout does", "rng-scopes"),  # Seeded alike on all ranks.
])
def test_a_trainer_is_compared_with_one_rank_or_says_why_not(script: str, says: str, law: str, tmp_path: Path) -> None:
    argument = "ddp" if script == "lightning_job.py" else str(tmp_path)
    done = run(("lockstep", "torchrun", "--ranks", "1"), script, argument)
    assert done.returncode == bool(law), done.stdout + done.stderr
    assert law.upper() in done.stdout
    said = [line for line in done.stdout.splitlines() if line.startswith("lockstep: as one rank: single-process-equal ")]
    assert len(said) == 1 and says in said[0], done.stdout
