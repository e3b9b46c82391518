"""`lockstep torchrun` as a command: what it accepts, how ranks start and end, and what it refuses."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from lockstep.command_line import Usage
from lockstep.trace_claim import claim
from lockstep.virtual import options, zygote
from lockstep.virtual.connection import Refused
from virtual_job import SCRIPTS, lines_of, prepare, printed, run_virtual, write

HEAD = '''
import os, sys, time
import torch
import torch.distributed as dist
'''
JOIN = HEAD + '''
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
'''


# -- starting
def test_ranks_have_the_environment_of_torchrun(tmp_path: Path) -> None:
    script = write(tmp_path, HEAD + '''
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RUN_ID",
         "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
print("is", [os.environ[name] for name in names], __name__, sys.argv[1:])
''')
    outcome = run_virtual(script, 2, "--nnodes", "2", "--rdzv-id", "seven", "--master_port", "4711", "--standalone",
                          "--no-record", arguments=("--epochs", "3"))
    assert lines_of(outcome, "is") == [
        f"is ['{rank}', '{rank % 2}', '4', '2', '{rank // 2}', 'seven', '4711', '0'] __main__ ['--epochs', '3']"
        for rank in range(4)]


def test_a_module_is_run_as_python_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "__main__.py").write_text("from . import __name__ as name\nprint('module', name)\n")
    monkeypatch.chdir(tmp_path)
    outcome = run_virtual(Path("trainer"), 2, "--no-record", "-m")
    assert lines_of(outcome, "module") == ["module trainer"] * 2


def test_random_states_are_those_of_fresh_interpreters(tmp_path: Path) -> None:
    script = write(tmp_path, HEAD + '''
import random, numpy
print("drawn", os.environ["RANK"], random.random(), numpy.random.rand(), torch.rand(1).item())
''')
    first, again, other = (lines_of(run_virtual(script, 2, "--no-record", "--seed", seed), "drawn")
                           for seed in ("1", "1", "2"))
    assert first == again
    values = [line.split() for line in first + other]
    assert len({value[2] for value in values}) == len({value[3] for value in values}) == 4
    alike = len({_fresh_torch_number() for _ in range(2)}) == 1
    assert len({value[4] for value in values}) == (1 if alike else 4)


def _fresh_torch_number() -> str:
    """What PyTorch draws first in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.rand(1).item())"], text=True,
                          capture_output=True, check=True)
    return done.stdout


# -- ending
def test_a_failure_is_named_with_its_rank(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + "if rank == 1:\n    raise ValueError('bad luck')\ndist.barrier()\n")
    outcome = run_virtual(script, 3, "--no-record")
    assert outcome.found["outcome"] == "failed"
    assert outcome.found["first_failure"] == 1
    assert "bad luck" in outcome.found["error"]
    assert "ValueError: bad luck" in printed(outcome)
    assert "run_program" not in printed(outcome), "the traceback begins in the script"


def test_an_exit_code_is_kept(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + "sys.exit(7 if rank == 2 else 0)\n")
    outcome = run_virtual(script, 3, "--no-record")
    assert outcome.found["outcome"] == "failed"
    assert [end["exit_code"] for end in outcome.found["ends"]] == [0, 0, 7]


def test_what_is_registered_for_the_exit_runs(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + '''
import atexit, threading
atexit.register(lambda: print("at exit", rank))
threading.Timer(0.05, lambda: print("thread", rank)).start()
''')
    outcome = run_virtual(script, 2, "--no-record")
    assert lines_of(outcome, "at exit") == ["at exit 0", "at exit 1"]
    assert lines_of(outcome, "thread") == ["thread 0", "thread 1"]


def test_restarts_keep_the_store(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + '''
store = dist.distributed_c10d._get_default_store()
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
print("attempt", attempt, "of", rank, store.add(f"starts of {rank}", 1))
if attempt == 0 and rank == 1:
    os.kill(os.getpid(), 9)
dist.barrier()
''')
    outcome = run_virtual(script, 2, "--no-record", "--max-restarts", "1")
    assert outcome.ok, printed(outcome)
    assert outcome.attempts == 2
    assert {"attempt 1 of 0 2", "attempt 1 of 1 2"} <= set(lines_of(outcome, "attempt"))
    assert run_virtual(script, 2, "--no-record").found["outcome"] != "ok"


# -- what a rank is not
def test_a_fork_of_a_rank_is_refused(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + '''
child = os.fork()
if child == 0:
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        print("refused", str(error).split(":")[0][-40:], flush=True)
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
x = torch.ones(1)
dist.all_reduce(x)
assert x.item() == world
''')
    outcome = run_virtual(script, 2, "--no-record")
    assert outcome.ok, printed(outcome)
    assert len(lines_of(outcome, "refused")) == 2


@pytest.mark.parametrize(("body", "says"), [
    ("import torch.distributed.rpc as rpc\nrpc.init_rpc('w', rank=0, world_size=1)\n", "rpc is not simulated"),
    ("dist.init_process_group('gloo', init_method='tcp://127.0.0.1:1', rank=0, world_size=1)\n",
     "start as many ranks as the script opens"),
])
def test_what_cannot_be_simulated_is_refused_by_name(body: str, says: str, tmp_path: Path) -> None:
    outcome = run_virtual(write(tmp_path, HEAD + body), 2, "--no-record")
    assert outcome.found["outcome"] == "failed"
    assert says in printed(outcome)


# -- time
def test_sleeping_takes_virtual_time_only(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + '''
begin = time.time(), time.monotonic(), time.perf_counter()
time.sleep(1000 * (rank + 1))
passed = [now - then for now, then in zip((time.time(), time.monotonic(), time.perf_counter()), begin)]
assert all(1000 * (rank + 1) <= value < 1000 * (rank + 2) for value in passed), passed
dist.barrier()
''')
    begin = time.monotonic()
    outcome = run_virtual(script, 2, "--no-record")
    assert outcome.ok, printed(outcome)
    assert outcome.found["now_ns"] >= 2000 * 10**9 > (time.monotonic() - begin) * 1e9


def test_a_virtual_clock_shows_the_same_in_every_run(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + '''
dist.barrier()
deadline = time.time() + 0.01
looks = 0
while time.time() < deadline:
    looks += 1
print("looks", rank, looks, time.time(), time.monotonic())
''')
    runs = [lines_of(run_virtual(script, 2, "--no-record", "--clock", "virtual"), "looks") for _ in range(2)]
    assert len(runs[0]) == 2
    assert runs[0] == runs[1]


# -- faults
@pytest.mark.parametrize(("fault", "outcome", "says"), [
    ("kill:1:4", "failed", "rank 1"), ("exception:0:4", "failed", "rank 0"), ("hang:1:4", "deadlock", "1")])
def test_a_fault_is_named_with_its_rank(fault: str, outcome: str, says: str) -> None:
    ran = run_virtual(SCRIPTS / "clean.py", 2, "--fault", fault)
    assert ran.found["outcome"] == outcome, (ran.found["error"], ran.found["wait_for"])
    assert not ran.ok
    assert says in ran.found["error"] + ran.found["wait_for"] + " ".join(ran.found["struck"])


def test_a_contribution_that_counts_twice_is_found_by_the_laws() -> None:
    ran = run_virtual(SCRIPTS / "clean.py", 4, "--fault", "double:1:6")
    assert ran.report is not None
    assert any(finding.law == "gradient-mean" and 1 in finding.ranks for finding in ran.report.findings), \
        str(ran.report)


# -- the command line
@pytest.mark.parametrize(("given", "says"), [
    (["absent.py"], "absent.py: no such file"),
    (["--nproc-per-node", "gpu", __file__], "must be a number"),
    (["--nproc-per-node", "0", __file__], "must be a number"),
    (["--no-python", __file__], "--no-python: not simulated"),
    (["--device", "cuda", __file__], "--device cuda: not simulated: cpu, cpu-as-cuda and cpu-as-cuda:N are"),
    (["--device", "cpu:2", __file__], "--device cpu:2: not simulated"),
    (["--device", "cpu-as-cuda:0", __file__], "--device cpu-as-cuda:0: the number of GPUs must be a whole number from 1 to 1024"),
    (["--device", "cpu-as-cuda:1025", __file__], "the number of GPUs must be a whole number from 1 to 1024"),
    (["--device", "cpu-as-cuda:²", __file__], "the number of GPUs must be a whole number from 1 to 1024"),
    (["--unknown", __file__], "unrecognized arguments|required"),
    (["--no-record", "--twice", __file__], "need what is recorded"),
    (["--nproc-per-node", "²", __file__], "--nproc-per-node ²: must be a number from 1 to 1048576"),
    (["--nproc-per-node", "9" * 5000, __file__], "must be a number from 1 to 1048576"),
    (["--nnodes", "1024", "--nproc-per-node", "1025", __file__], "1049600 ranks: must be 1048576 or fewer"),
    (["--seed", "-1", __file__], "--seed: must be a whole number from 0 to 18446744073709551615, not '-1'"),
    (["--seed", str(1 << 64), __file__], "--seed: must be a whole number from 0 to "),
    (["--seed", str((1 << 64) - 1), "--explore", "2", __file__], "the seeds of 2 schedules go beyond"),
    (["--wall-limit", "nan", __file__], "--wall-limit: must be a number of seconds from 0 to "),
    (["--wall-limit", "1e9", __file__], "--wall-limit: must be a number of seconds from 0 to "),
    (["--arena-mb", "99999999999", __file__], "--arena-mb: must be a whole number from 1 to "),
    (["--master-port", "99999999", __file__], "must be a whole number from 0 to 65535"),
    (["--log-dir", __file__, __file__], "--log-dir .*: is not a folder"),
    (["--strategy", "rando", __file__], "--strategy: unknown strategy 'rando'; did you mean 'random'"),
    (["--order", "rnak", __file__], "--order: unknown order of reductions 'rnak'"),
    (["--allow", "replicas-equl@x", __file__], "--allow: unknown law 'replicas-equl'; did you mean 'replicas-equal'"),
    (["--buffers", "brodcast0", __file__], "--buffers: must be one of broadcast0, mean, synced, local, not 'brodcast0'"),
    (["--sed", "3", __file__], "unrecognized arguments: --sed; did you mean '--seed'"),
])
def test_a_wrong_command_line_is_refused(given: list[str], says: str) -> None:
    with pytest.raises(Usage, match=says):
        options.parse(given)


def test_options_after_the_script_are_the_scripts() -> None:
    given = options.parse(["--nproc-per-node=2", __file__, "--seed", "9", "-m"])
    assert given.arguments == ("--seed", "9", "-m")
    assert given.seed == 0 and not given.is_module


def command(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lockstep", "torchrun", *arguments], text=True, cwd=cwd,
                          capture_output=True, env=dict(os.environ, OMP_NUM_THREADS="1", **environment))


def test_the_command_prints_ranks_verdict_and_findings(tmp_path: Path) -> None:
    done = command("--nproc-per-node", "3", "--trace", str(tmp_path / "trace"), str(SCRIPTS / "hang.py"))
    assert done.returncode == 1
    assert "DEADLOCK" in done.stderr
    assert "in main: loss.backward()" in done.stderr
    assert "law PROGRESS" in done.stdout
    files = sorted((tmp_path / "trace").glob("*.jsonl"))
    assert len(files) == 3
    ends = [json.loads(file.read_text().splitlines()[-1]) for file in files]
    assert [end["outcome"] for end in ends] == ["ok", "stuck", "stuck"]


def test_the_command_says_ok_and_compares_runs(tmp_path: Path) -> None:
    script = write(tmp_path, JOIN + "dist.barrier()\nprint('here')\n")
    done = command("--nproc-per-node", "2", "--twice", str(script))
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if "here" in line) == ["[rank 0] here", "[rank 1] here"]
    assert "twice: equal" in done.stdout


@pytest.mark.parametrize(("given", "says"), [
    (["absent.py"], "absent.py: no such file"),
    (["--order", "rnak", __file__], "--order: unknown order of reductions 'rnak'"),
    (["--trace", __file__, __file__], f"--trace {__file__}: is not a folder"),
    (["--trace", "/proc/trace", __file__], "--trace /proc/trace: No such file or directory"),
])
def test_bad_usage_is_one_sentence_with_exit_code_2_before_pytorch_is_imported(given: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit(99)\n")
    done = command(*given, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    assert (done.returncode, done.stderr) == (2, f"lockstep torchrun: {says}\n")


def test_a_trace_is_not_written_into_the_folder_of_a_job_that_runs(tmp_path: Path) -> None:
    with claim(str(tmp_path), "--trace"):
        done = command("--trace", str(tmp_path), __file__)
    assert (done.returncode, done.stderr) == (
        2, f"lockstep torchrun: {tmp_path}: another job is recorded into it; choose another folder with --trace\n")


def test_what_is_preloaded_is_imported_once_and_a_rank_imports_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "ahead.py").write_text(
        "import os, sys\nprint('imported')\nbefore = set()\nos.register_at_fork(before=lambda: before.update(sys.modules))\n")
    script = write(tmp_path, JOIN + "import sys, ahead\nmodel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))\n"
                   "model(torch.ones(1, 2)).sum().backward()\n"
                   "print('later:', [name for name in sys.modules if name.startswith('lockstep') and name not in ahead.before])\n")
    done = command("--nproc-per-node", "2", "--preload", "ahead", script.name, cwd=tmp_path)
    assert sorted(line for line in done.stdout.splitlines() if "imported" in line or "later" in line) == [
        "[rank 0] later: []", "[rank 1] later: []", "imported"], done.stdout + done.stderr


def test_a_module_that_is_not_there_cannot_be_preloaded(tmp_path: Path) -> None:
    prepare()
    with pytest.raises(Refused, match="--preload absent: No module named 'absent'"):
        zygote.prepare(("absent",))


def test_a_thread_that_a_fork_would_lose_is_named(tmp_path: Path) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="of-a-preloaded-module")
    thread.start()
    try:
        with pytest.raises(Refused, match="has threads, which no fork would have: of-a-preloaded-module"):
            run_virtual(write(tmp_path, "print('never')\n"), 2)
    finally:
        over.set()
        thread.join()
