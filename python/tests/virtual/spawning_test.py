"""`lockstep run SCRIPT`: the processes that torch.multiprocessing.spawn starts are the ranks, and the script sees what it
sees under Python."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lockstep.command_line import Usage
from lockstep.virtual import launch, options
from virtual_job import ARENA, lines_of, prepare, printed, run_virtual, write

HEAD = '''
import hashlib, os, signal, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

def setup(rank, world):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29733"
    dist.init_process_group("gloo", rank=rank, world_size=world)
'''
TRAIN = '''
def train(rank, world, method, store, queue, lr=0.1):
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world)
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr * (1 + rank * (lr > 1)))
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(4, 5)).square().mean().backward()
        optimizer.step()
    store[rank] = rank + 1.0
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    queue.put((rank, digest, __name__, "made" in globals()))
    dist.destroy_process_group()
'''
# What the script prints under Python with real Gloo is what it must print here.
TRANSCRIPT = HEAD + TRAIN + '''
def fails(rank, world, how):
    setup(rank, world)
    if rank == 1:
        if how == "raise":
            raise ValueError("bad luck")
        if how == "exit":
            sys.exit(7)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()

def draws(rank, queue):
    queue.put((rank, torch.rand(2).tolist(), made))

def attempt(what, *args, **given):
    try:
        print(what, "returned", mp.start_processes(*args, **given), flush=True)
    except mp.ProcessRaisedException as error:
        print(what, "raised", error.error_index, str(error).splitlines()[2:4], str(error).splitlines()[-1], flush=True)
    except mp.ProcessExitedException as error:
        print(what, error, error.exit_code, error.signal_name, flush=True)
    except Exception as error:
        print(what, type(error).__name__, flush=True)

if __name__ == "__main__":
    made = True
    folder = sys.argv[1]
    shared = torch.zeros(2).share_memory_()
    queue = mp.get_context("spawn").SimpleQueue()
    context = mp.spawn(train, (2, f"file://{folder}/meet", shared, queue), nprocs=2, join=False)
    print(sorted(queue.get() for _ in range(2)), len(context.pids()), len(context.processes))
    while not context.join(timeout=5):
        pass
    print(shared.tolist(), [each.exitcode for each in context.processes], context.join())
    attempt("lambda", lambda rank: None, nprocs=2, start_method="spawn")
    for how in ("raise", "exit", "kill"):
        attempt(how, fails, (2, how), nprocs=2, start_method="fork")
    torch.manual_seed(5)
    forked = mp.get_context("fork").SimpleQueue()
    attempt("draws", draws, (forked,), nprocs=2, start_method="fork")
    print(sorted(forked.get() for _ in range(2)))
'''


def run_alone(script: Path, *given: str, arguments: tuple[str, ...] = (), trace: Path | None = None) -> launch.Outcome:
    """What `lockstep run GIVEN... SCRIPT ARGUMENTS...` finds."""
    prepare()
    parsed = options.parse([*ARENA, *given, str(script), *arguments], alone=True)
    return launch.run(parsed, parsed.seed, str(trace) if trace is not None else "", quiet=True)


def own_lines(outcome: launch.Outcome) -> list[str]:
    """What the script itself printed."""
    return [line for rank, line in outcome.lines if rank == -1]


def run_under_python(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """What the script does with PyTorch alone. A thread of its Gloo sometimes lets go of its last work while the interpreter
    ends, and aborts the process: then again."""
    for attempt in range(10):
        own = folder / f"real-{attempt}"
        own.mkdir()
        real = subprocess.run([sys.executable, str(script), str(own)], text=True, capture_output=True, timeout=300,
                              env=dict(os.environ, OMP_NUM_THREADS="1"))
        if "terminate called without an active exception" not in real.stderr:
            break
    return real


def test_the_script_prints_what_it_prints_under_python_and_real_gloo(tmp_path: Path) -> None:
    script = write(tmp_path, TRANSCRIPT)
    real = run_under_python(script, tmp_path)
    assert real.returncode == 0, real.stderr
    virtual = tmp_path / "virtual"
    virtual.mkdir()
    outcome = run_alone(script, "--no-record", arguments=(str(virtual),))
    own = [line for line in own_lines(outcome) if "Warning" not in line]
    assert own == real.stdout.splitlines(), printed(outcome)
    assert "__mp_main__" in own[0] and "False" in own[0], "what the script did before spawn is not in the processes"
    assert own[2].startswith("lambda ") and own[3].startswith("raise raised 1")
    assert [each.found["outcome"] for each in (*outcome.others, outcome)] == ["ok", "failed", "failed", "ok", "failed"], \
        "in the order of the calls, but for the first that failed, which is the outcome"


JOB = HEAD + TRAIN + '''
if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(train, (3, "tcp://127.0.0.1:23456", torch.zeros(3).share_memory_(), queue, LR), nprocs=3)
    for _ in range(3):
        print("digest", queue.get()[1])
'''


def test_ranks_are_judged_and_kept(tmp_path: Path) -> None:
    healthy = run_alone(write(tmp_path, JOB.replace("LR", "0.1")), trace=tmp_path / "trace")
    assert healthy.ok, printed(healthy)
    assert healthy.report is not None and not healthy.report.findings
    assert len(set(own_lines(healthy))) == 1
    assert len(sorted((tmp_path / "trace").glob("*.jsonl"))) == 3
    broken = run_alone(write(tmp_path, JOB.replace("LR", "2.0")))
    assert broken.report is not None
    assert "lr-per-rank" in {finding.cause for finding in broken.report.findings}, str(broken.report)
    assert not broken.ok


def test_schedules_and_faults_reach_the_ranks(tmp_path: Path) -> None:
    script = write(tmp_path, JOB.replace("LR", "0.1"))
    serial = [run_alone(script, "--serial", "--seed", seed) for seed in "12"]
    assert all(outcome.ok for outcome in serial)
    assert serial[0].found["token"] != serial[1].found["token"]
    assert own_lines(serial[0]) == own_lines(serial[1])
    killed = run_alone(script, "--fault", "kill:2:4")
    assert killed.found["outcome"] == "failed" and killed.found["first_failure"] == 2
    assert any("process 2 terminated with signal SIGKILL" in line for line in own_lines(killed)), printed(killed)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_hang_is_a_verdict_and_ends_the_script(method: str, tmp_path: Path) -> None:
    script = write(tmp_path, HEAD + f'''
def train(rank, world):
    setup(rank, world)
    if rank != 1:
        dist.all_reduce(torch.ones(3))

if __name__ == "__main__":
    mp.start_processes(train, (3,), nprocs=3, start_method="{method}")
    print("never")
''')
    outcome = run_alone(script)
    assert outcome.found["outcome"] == "deadlock"
    assert "missing: rank 1, which ended normally" in outcome.found["wait_for"]
    assert "job.py:16 in train: dist.all_reduce" in outcome.found["stacks"][0]
    assert outcome.called.endswith("job.py:19")
    assert own_lines(outcome) == []


def test_a_script_that_fails_after_its_ranks_did_well_is_not_ok(tmp_path: Path) -> None:
    script = write(tmp_path, HEAD + '''
def train(rank):
    setup(rank, 2)
    print("here", rank)

if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
    raise KeyError("afterwards")
''')
    outcome = run_alone(script, "--no-record")
    assert outcome.found["outcome"] == "ok" and not outcome.ok and outcome.script_code == 1
    assert lines_of(outcome, "here") == ["here 0", "here 1"]
    assert any("KeyError: 'afterwards'" in line for line in own_lines(outcome))


@pytest.mark.parametrize(("body", "guard", "says"), [
    ("setup(rank, 3)", True, "init_process_group of rank 0 of 3 in process 0 of the 2 that torch.multiprocessing.spawn started"),
    ("setup(1 - rank, 2)", True, "others, on other machines or in another order, are not simulated"),
    ("dist.init_process_group('gloo')", True, "environment variable RANK expected, but not set"),
    ("dist.init_process_group('gloo', rank=rank, world_size=2)", True, "environment variable MASTER_ADDR expected"),
    ("mp.spawn(print, nprocs=2)", True, "a rank starts no ranks"),
    ("pass", False, "forgotten to use the proper idiom"),
])
def test_what_cannot_be_simulated_or_is_wrong_is_said_in_a_sentence(body: str, guard: bool, says: str, tmp_path: Path) -> None:
    text = f"def train(rank):\n    {body}\n" + ("if __name__ == '__main__':\n" if guard else "if True:\n")
    outcome = run_alone(write(tmp_path, HEAD + text + "    mp.spawn(train, nprocs=2)\n"), "--no-record")
    assert outcome.found["outcome"] == "failed"
    assert says in printed(outcome), printed(outcome)


def test_a_script_that_starts_no_ranks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="called neither spawn nor start_processes"):
        run_alone(write(tmp_path, "print('alone')\n"), "--no-record")
    with pytest.raises(Usage, match=r"job.py:12: starts 0 processes: .* --device cpu-as-cuda:N"):
        run_alone(write(tmp_path, HEAD + "mp.spawn(print, nprocs=torch.cuda.device_count())\n"), "--no-record")
    with pytest.raises(launch.ScriptFailed, match="exit code 5"):
        run_alone(write(tmp_path, "raise SystemExit(5)\n"), "--no-record")


def test_a_rank_of_a_launcher_starts_no_ranks(tmp_path: Path) -> None:
    script = write(tmp_path, HEAD + "mp.spawn(print, nprocs=3)\n")
    outcome = run_virtual(script, 3, "--no-record")
    assert outcome.found["outcome"] == "failed"
    assert "mp.spawn" not in outcome.found["error"] and "lockstep run SCRIPT" in outcome.found["error"]


def test_the_command_says_the_verdict_and_has_its_code(tmp_path: Path) -> None:
    script = write(tmp_path, HEAD + '''
def train(rank):
    setup(rank, 2)
    if rank:
        dist.barrier()

if __name__ == "__main__":
    print("begun", sys.argv[1:])
    mp.spawn(train, nprocs=2)
''')
    done = subprocess.run([sys.executable, "-m", "lockstep", "run", "--no-record", str(script), "--serial"], text=True,
                          capture_output=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "begun ['--serial']", done.stderr
    assert "DEADLOCK: no rank can continue" in done.stderr
    assert re.search(r"deadlock: 2 virtual ranks that \S*job.py:20 started, simulated on the CPU", done.stdout)


def test_how_many_ranks_there_are_is_the_scripts_to_say() -> None:
    with pytest.raises(Usage, match="unrecognized arguments|no such file|required"):
        options.parse(["--nproc-per-node", "2", __file__], alone=True)
