"""Searches spread over executors: processes, threads, a Dask cluster and MPI find what one process finds."""
from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lockstep
from lockstep.native import command

ROOT = Path(__file__).resolve().parents[2]
RACE = ROOT / "scenarios" / "zoo" / "overlap_race.toml"
HEALTHY = ROOT / "scenarios" / "healthy" / "any_schedule.toml"
SWARM = ROOT / "scenarios" / "faults" / "swarm.toml"

# Under MPI the script is run by `python -m mpi4py.futures`: rank 0 runs it, the others run functions.
UNDER_MPI = """
import dataclasses, json, os, sys
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor
import lockstep

def where(_):
    return MPI.COMM_WORLD.Get_rank(), os.getpid()

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        workers = sorted(set(pool.map(where, range(40), unordered=True)))
        found = lockstep.explore(sys.argv[1], executor=pool, shards=5, runs=30, out=sys.argv[2])
    print(json.dumps({"workers": len(workers), "found": dataclasses.asdict(found)}, default=str))
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def without_notes(found: lockstep.Exploration) -> dict[str, object]:
    """One process stops at the first failure, and knows of no other."""
    return {name: value for name, value in vars(found).items() if name not in ("notes", "out")}


def check_executor(executor: lockstep.exploring.Submits, shards: int) -> None:
    """A search that finds something and one that does not come to what one process says and writes."""
    for scenario, ok in ((RACE, False), (HEALTHY, True)):
        alone = lockstep.explore(scenario, runs=30, seeds=2, out=f"alone-{scenario.stem}")
        spread = lockstep.explore(scenario, runs=30, seeds=2, executor=executor, shards=shards, out=f"spread-{scenario.stem}")
        assert without_notes(spread) == without_notes(alone)
        assert spread.ok is ok and spread.out.exists() is not ok
        for name in ("repro.toml", "repro_test.cc") if not ok else ():
            assert (spread.out / name).read_bytes() == (alone.out / name).read_bytes()


@pytest.mark.parametrize("shards", [1, 3, 40])
def test_threads_find_what_one_process_finds(shards: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        check_executor(pool, shards)


def test_processes_find_what_one_process_finds() -> None:
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        check_executor(pool, 5)


def test_a_dask_cluster_of_two_workers_finds_what_one_process_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers take over this process's path, on which other tests put sources without the native part.
    monkeypatch.syspath_prepend(Path(lockstep.__file__).parents[1])
    distributed = pytest.importorskip("distributed", reason="python3-distributed is missing: ./dev setup installs it")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
                                  local_directory="dask") as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        pids = client.run(os.getpid)
        assert len({*pids.values(), os.getpid()}) == 3, "two processes beside this one"
        check_executor(client.get_executor(), 5)


def mpirun(*words: object) -> subprocess.CompletedProcess[str]:
    if shutil.which("mpirun") is None:
        pytest.skip("openmpi-bin is missing: ./dev setup installs it")
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return subprocess.run(["mpirun", "--oversubscribe", *map(str, words)], capture_output=True, text=True, timeout=300,
                          env=environment)


def test_workers_of_mpi_find_what_one_process_finds(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py", reason="python3-mpi4py is missing: ./dev setup installs it")
    script = tmp_path / "search.py"
    script.write_text(UNDER_MPI)
    done = mpirun("-n", 3, sys.executable, "-m", "mpi4py.futures", script, RACE, "spread")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["workers"] == 2
    alone = lockstep.explore(RACE, runs=30, out="alone")
    assert alone.failure is not None
    assert said["found"]["failure"] == vars(alone.failure)
    assert said["found"]["runs"] == alone.runs and said["found"]["ends"] == alone.ends
    assert Path("spread/repro.toml").read_bytes() == Path("alone/repro.toml").read_bytes()


def test_anything_that_submits_is_an_executor() -> None:
    class Later:
        """Runs functions when their results are asked for, the last one first."""

        def __init__(self, work: object) -> None:
            self.work = work

        def result(self) -> object:
            return self.work()  # type: ignore[operator]

    class Mine:
        def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
            return Later(lambda: fn(*args, **kwargs))

    check_executor(Mine(), 3)


def test_a_failure_names_its_run_and_what_repeats_it() -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = lockstep.explore(RACE, runs=8, executor=pool, shards=4)
    assert found.failure is not None
    assert found.failure.run == 1 and "IN-FLIGHT-UNTOUCHED" in found.failure.sentence
    assert found.failure.command == f"lockstep run {RACE}"
    assert any(note.startswith("the same failure occurred in other shards: run 2, 3, 4") for note in found.notes)
    with pytest.raises(lockstep.SearchFailed, match="IN-FLIGHT-UNTOUCHED"):
        found.raise_for_failure()
    replayed = subprocess.run([command(), "replay", str(found.out / "repro.toml")], capture_output=True, text=True)
    assert replayed.returncode == 1 and "reproduced: the same trace" in replayed.stdout


def test_a_mark_that_no_shard_reached_is_named() -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = lockstep.explore(SWARM, runs=4, settings=["swarm.faults=1"], executor=pool, shards=2)
    assert found.failure is None and not found.ok
    assert found.unreached == ("the last restart finds one, too",)
    with pytest.raises(lockstep.SearchFailed, match="never reached: the last restart finds one, too"):
        found.raise_for_failure()


def test_what_makes_no_sense_is_refused_in_the_words_of_the_command() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="exhaustive cannot be split"):
            lockstep.explore(HEALTHY, strategy="exhaustive", executor=pool, shards=2)
        with pytest.raises(ValueError, match="pct learns from earlier runs"):
            lockstep.explore(HEALTHY, strategy="pct:depth=3", executor=pool, shards=2)
        with pytest.raises(ValueError, match="absent.toml"):
            lockstep.explore("absent.toml", executor=pool)
        with pytest.raises(ValueError, match="shards=0: must be 1 or more"):
            lockstep.explore(HEALTHY, executor=pool, shards=0)
    with pytest.raises(ValueError, match="unknown key|no such|did you mean"):
        lockstep.explore(HEALTHY, settings=["sim.stratgy=random"])


# A worker whose scenario is another one: its part is of another run.
def test_a_worker_that_reads_another_scenario_is_noticed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    text = HEALTHY.read_text()
    (tmp_path / "job.toml").write_text(text)
    (other / "job.toml").write_text(text + "\n")

    class Elsewhere:
        def submit(self, fn, /, words, folder, shard):  # type: ignore[no-untyped-def]
            future: concurrent.futures.Future[str] = concurrent.futures.Future()
            future.set_result(fn(words, str(other) if shard == "2/2" else folder, shard))
            return future

    with pytest.raises(ValueError, match=r"part-2\.jsonl:1:\d+: this part has scenario-digest"):
        lockstep.explore("job.toml", runs=4, executor=Elsewhere(), shards=2)  # type: ignore[arg-type]
