"""`lockstep run SCRIPT`: a process of multiprocessing.Process is what it is under Python, and becomes a rank when it opens
a process group."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from multiprocessing.connection import Listener
from pathlib import Path

import pytest
from lockstep.command_line import Usage
from lockstep.virtual import launch, options
from lockstep.virtual.spawn_request import Files
from spawning_test import HEAD, own_lines, run_alone, write
from virtual_job import ARENA, prepare, printed

METHODS = ("fork", "spawn")
# As the oldest tutorial of torch.distributed has it.
TUTORIAL = HEAD + '''
def run(rank, size, queue):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 2))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.5)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(4, 6, generator=generator)).square().mean().backward()
        optimizer.step()
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    queue.put((rank, digest))

def init_process(rank, size, fn, queue, backend="gloo"):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29511"
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size, queue)
    dist.destroy_process_group()

if __name__ == "__main__":
    size = 3
    processes = []
    mp.set_start_method("METHOD")
    queue = mp.Queue()
    for rank in range(size):
        p = mp.Process(target=init_process, args=(rank, size, run, queue))
        p.start()
        processes.append(p)
    for digest in sorted(queue.get() for _ in range(size)):
        print(*digest)
    for p in processes:
        p.join()
    print([p.exitcode for p in processes], [p.is_alive() for p in processes])
'''


def tutorial(method: str, rate: str = "0.1") -> str:
    return TUTORIAL.replace("METHOD", method).replace("LR", rate)


def under_python(script: Path, *arguments: str) -> list[str]:
    """What a script prints with real Gloo."""
    done = subprocess.run([sys.executable, str(script), *arguments], text=True, capture_output=True, timeout=300,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def gloos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the tutorial prints under Python; how its processes start changes nothing."""
    return under_python(write(tmp_path_factory.mktemp("gloo"), tutorial("fork")))


@pytest.mark.parametrize("method", METHODS)
def test_the_oldest_tutorial_ends_with_the_bits_of_real_gloo(method: str, tmp_path: Path, gloos: list[str]) -> None:
    script = write(tmp_path, tutorial(method))
    outcome = run_alone(script, trace=tmp_path / "trace")
    assert outcome.ok, printed(outcome) + str(outcome.report)
    assert outcome.report is not None and not outcome.report.findings
    assert len(sorted((tmp_path / "trace").glob("*.jsonl"))) == 3
    started = 1 + script.read_text().splitlines().index("        p.start()")
    assert len(outcome.found["ends"]) == 3 and outcome.called.endswith(f"job.py:{started}")
    own = own_lines(outcome)
    assert own == gloos
    assert len({line.split()[1] for line in own[:3]}) == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_rate_for_each_rank_is_found(method: str, tmp_path: Path) -> None:
    outcome = run_alone(write(tmp_path, tutorial(method, "0.1 * (1 + rank)")))
    assert outcome.report is not None
    assert "lr-per-rank" in {finding.cause for finding in outcome.report.findings}, str(outcome.report)
    assert not outcome.ok


def test_schedules_and_faults_reach_the_processes(tmp_path: Path) -> None:
    script = write(tmp_path, tutorial("fork"))
    serial = [run_alone(script, "--serial", "--seed", seed) for seed in "112"]
    assert all(outcome.ok for outcome in serial), printed(serial[0])
    tokens = [outcome.found["token"] for outcome in serial]
    assert tokens[0] == tokens[1] != tokens[2]
    assert own_lines(serial[0]) == own_lines(serial[1]) == own_lines(serial[2])
    killed = run_alone(write(tmp_path, tutorial("fork").replace("sorted(queue.get() for _ in range(size))", "()")),
                       "--no-record", "--fault", "kill:2:4")
    assert killed.found["outcome"] == "failed" and killed.found["first_failure"] == 2
    assert own_lines(killed)[-1].startswith("[1, 1, -9] [False, False, False]"), printed(killed)


HANG = HEAD + '''
def train(rank):
    setup(rank, 3)
    if rank != 1:
        dist.all_reduce(torch.ones(3))

if __name__ == "__main__":
    mp.set_start_method("METHOD")
    ranks = [mp.Process(target=train, args=(rank,)) for rank in range(3)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
    print("never")
'''


@pytest.mark.parametrize("method", METHODS)
def test_a_hang_is_a_verdict_and_ends_the_script(
        method: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path_factory.mktemp("t")  # Short: names of sockets are.
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    outcome = run_alone(write(tmp_path, HANG.replace("METHOD", method)), "--no-record")
    assert outcome.found["outcome"] == "deadlock", printed(outcome)
    assert "missing: rank 1, which ended normally" in outcome.found["wait_for"]
    assert "job.py:16 in train: dist.all_reduce" in outcome.found["stacks"][0]
    assert own_lines(outcome) == []
    assert list(temporary.iterdir()) == [], "the script was ended, and could not remove what it left"


# What the script prints under Python with real Gloo is what it must print here.
OTHERS = HEAD + '''
def reduce(rank, queue):
    setup(rank, 2)
    x = torch.ones(1) * (rank + 1)
    dist.all_reduce(x)
    queue.put((rank, x.item(), os.environ["OF_ITS_OWN"], __name__))
    dist.destroy_process_group()

def log(inbox, done):
    """Is no rank."""
    while (line := inbox.get()) is not None:
        print("log:", line, dist.is_initialized(), flush=True)
    done.set()

class Worker(mp.Process):
    def run(self):
        print(self.name, mp.current_process().name, self.daemon, flush=True)
        sys.exit(7)

def fails():
    raise ValueError("bad luck")

if __name__ == "__main__":
    method = sys.argv[1]
    context = mp.get_context(method)
    inbox, outbox, done = context.Queue(), context.Queue(), context.Event()
    logger = context.Process(target=log, args=(inbox, done), daemon=True)
    logger.start()
    for again in range(2):
        ranks = []
        for rank in range(2):
            os.environ["OF_ITS_OWN"] = f"{rank} in {again}"
            ranks.append(context.Process(target=reduce, args=(rank, outbox)))
            ranks[-1].start()
        for line in sorted(outbox.get() for _ in ranks):
            inbox.put(line)
        for each in ranks:
            each.join()
            assert each.exitcode == 0
    inbox.put(None)
    print(done.wait(60), logger.pid != os.getpid())
    logger.join()
    if method == "fork":
        others = [Worker(name="mine")]
    else:
        others = []
    others += [context.Process(target=fails), context.Process(target=os.abort)]
    for each in others:
        each.start()
    for each in others:
        each.join()
    print([each.exitcode for each in others])
'''


@pytest.mark.parametrize("method", METHODS)
def test_processes_that_are_no_ranks_and_exit_codes_are_as_under_python(method: str, tmp_path: Path) -> None:
    script = write(tmp_path, OTHERS)
    outcome = run_alone(script, "--no-record", arguments=(method,))
    real = under_python(script, "fork")  # Which takes a fifth of the time of spawn.
    if method == "spawn":
        real = [line.replace("'__main__'", "'__mp_main__'") for line in real if not line.startswith("mine")]
        real[-1] = real[-1].replace("7, ", "")
    own = [line for line in own_lines(outcome) if line in real or line.startswith(("log:", "[", "True", "mine"))]
    assert own == real, printed(outcome)
    assert sum(line.startswith("log:") for line in real) == 4
    assert real[-1] == ("[7, 1, -6]" if method == "fork" else "[1, -6]")
    assert outcome.ok, printed(outcome)
    assert [len(each.found["ends"]) for each in (*outcome.others, outcome)] == [2, 2], "each pair is a job of its own"


@pytest.mark.parametrize(("how", "code", "says"), [
    ("sys.exit(7)", 7, "exit code 7"), ("raise ValueError('bad luck')", 1, "ValueError: bad luck")])
def test_a_rank_that_fails_has_its_exit_code(how: str, code: int, says: str, tmp_path: Path) -> None:
    outcome = run_alone(write(tmp_path, HEAD + f'''
def train(rank):
    setup(rank, 2)
    if rank == 1:
        {how}
    dist.barrier()

if __name__ == "__main__":
    ranks = [mp.Process(target=train, args=(rank,)) for rank in range(2)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
    print([p.exitcode for p in ranks])
'''), "--no-record")
    assert outcome.found["outcome"] == "failed" and outcome.found["first_failure"] == 1
    assert says in outcome.found["ends"][1]["text"], outcome.found["ends"]
    assert own_lines(outcome)[-1] == f"[1, {code}]", printed(outcome)


@pytest.mark.parametrize(("body", "before", "says"), [
    ("if rank == 1:\n        sys.exit(0)\n    setup(rank, 2)", "", "no process opened its group as rank 1, and none is left that could"),
    ("setup(rank, 3)", "", "no process opened its group as rank 2"),
    ("dist.init_process_group('gloo')", "", "environment variable RANK expected, but not set"),
    ("dist.init_process_group('gloo', rank=rank, world_size=2)", "", "environment variable MASTER_ADDR expected"),
    ("setup(0, 2)", "", "is this rank already"),
    ("setup(rank, 2 + rank)", "", "waits to be one of"),
    ("setup(2, 2)", "", "rank 2 of 2: there is no such rank"),
    ("dist.init_process_group('gloo', store=dist.HashStore(), rank=rank, world_size=2)", "", "with a store that the script has made"),
    ("setup(rank + 1, 3)", "setup(0, 3)", "in the process that starts the others"),
])
def test_what_cannot_be_simulated_or_is_wrong_is_said_in_a_sentence(
        body: str, before: str, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = write(tmp_path, HEAD + f'''
def train(rank):
    {body}

if __name__ == "__main__":
    ranks = [mp.Process(target=train, args=(rank,)) for rank in range(2)]
    for p in ranks:
        p.start()
    {before}
    for p in ranks:
        p.join()
''')
    prepare()
    parsed = options.parse([*ARENA, "--no-record", str(script)], alone=True)
    said = ""
    try:
        outcome = launch.run(parsed, 0, "", quiet=False)
        assert not outcome.ok
        launch.say(outcome, parsed)
    except Usage as error:
        said = str(error)
    said += capfd.readouterr().err
    assert says in said, said


def test_a_folder_is_used_for_sockets_as_long_as_their_paths_fit() -> None:
    """As Linux itself has it: from which length on can no socket be bound?"""
    fits: list[bool] = []
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        for length in range(60, 110):
            folder = Path(scratch) / ("x" * (length - len(scratch) - 1))
            folder.mkdir()
            sockets = Files(str(folder)).of_multiprocessing()
            fits.append(sockets is not None)
            path = (sockets or folder / "p") / "listener-12345678"
            path.parent.mkdir(exist_ok=True)
            try:
                Listener(str(path)).close()
                assert fits[-1], f"{len(str(path))} bytes can be bound"
            except OSError:
                assert not fits[-1], f"{len(str(path))} bytes cannot be bound"
    assert {True, False} == set(fits)
