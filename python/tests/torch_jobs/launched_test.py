"""The same through the command and a launcher, as people start their jobs."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lockstep
import pytest
from forked import SCRIPTS, reserved_ports, run_job

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


def record(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "lockstep", "record", "-o", str(folder), *options, "--"]


def test_torchrun_is_recorded_without_an_edit(tmp_path: Path) -> None:
    ran = subprocess.run([*record(tmp_path / "trace"), *TORCHRUN, "2", str(SCRIPTS / "clean.py")],
                         capture_output=True, text=True)
    assert "recorded 2 ranks" in ran.stderr, ran.stderr
    report = lockstep.check(tmp_path / "trace")
    assert report.ok, str(report)
    assert report.law("samples-covered").verdict == "holds"
    # PyTorch 2.15 sometimes aborts a healthy gloo job while it exits, recorded or not.
    assert ran.returncode == 0 or "without an active exception" in ran.stderr, ran.stderr


def test_a_hang_is_ended_and_its_ranks_say_where_they_waited(tmp_path: Path) -> None:
    # Rank 1 sleeps where the others reduce: no rank ever fails.
    script = tmp_path / "waits.py"
    script.write_text('import time\nimport torch\nimport torch.distributed as dist\n'
                      'dist.init_process_group("gloo")\n'
                      'if dist.get_rank() == 1:\n    time.sleep(600)\n'
                      'dist.all_reduce(torch.zeros(3))\n')
    started = time.monotonic()
    ran = subprocess.run([*record(tmp_path / "trace", "--stuck-after", "3"), *TORCHRUN, "2", str(script)],
                         capture_output=True, text=True, timeout=100)
    assert "ending the job" in ran.stderr and ran.returncode != 0
    assert time.monotonic() - started < 60
    report = lockstep.check(tmp_path / "trace")
    assert report.outcome == "hang", str(report)
    [finding] = report.law("progress").findings
    assert (finding.ranks, finding.missing) == ((0,), (1,))
    assert finding.site.endswith("waits.py:7")
    assert finding.cause != "rank-crash", "it was ended from outside, when nothing moved any more"
    assert "waits.py:6, when no rank recorded anything any more" in finding.message


def test_a_rank_that_only_computes_while_the_others_wait_did_not_crash(tmp_path: Path) -> None:
    script = tmp_path / "computes.py"
    script.write_text(  # A wrapper imports torch._dynamo: as before, but that takes seconds in which nothing is recorded.
        'import torch, torch._dynamo, torch.distributed as dist\n'
        'from torch import nn\n'
        'from torch.nn.parallel import DistributedDataParallel\n'
        'dist.init_process_group("gloo")\n'
        'model = DistributedDataParallel(nn.Linear(2, 1))\n'
        'optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n'
        'for step in range(3):\n'
        '    while step == 2 and dist.get_rank() == 1: torch.ones(10).sum()\n'
        '    model(torch.ones(3, 2)).sum().backward()\n'
        '    optimizer.step()\n')
    ran = subprocess.run([*record(tmp_path / "trace", "--stuck-after", "4"), *TORCHRUN, "2", str(script)],
                         capture_output=True, text=True, timeout=100)
    assert "ending the job" in ran.stderr and ran.returncode != 0
    [finding] = lockstep.check(tmp_path / "trace").law("progress").findings
    assert (finding.cause, finding.ranks, finding.missing) == ("frozen-device", (0,), (1,))
    assert "computes.py:8, when no rank recorded anything any more" in finding.message


def test_a_rank_killed_outright_is_dead_and_no_partition(tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text('import os, signal\nimport torch\nimport torch.distributed as dist\n'
                      'dist.init_process_group("gloo")\n'
                      'dist.all_reduce(torch.zeros(3))\n'
                      'if dist.get_rank() == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\n'
                      'dist.all_reduce(torch.zeros(3))\n')
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes[1] == -signal.SIGKILL
    report = lockstep.check(tmp_path / "trace")
    [finding] = report.law("progress").findings
    assert finding.cause == "rank-crash", str(report)
    assert 1 in (*finding.ranks, *finding.missing)


@pytest.mark.parametrize(("does", "outcome", "says"), [
    ('class Mute(Exception):\n    def __str__(self): raise RuntimeError("mute")\n    __repr__ = __str__\nraise Mute()',
     "exception", "Mute: <exception str() failed>"),
    ("sys.excepthook = None\nraise ValueError('x')", "exception", "ValueError: x"),
    ("sys.excepthook = lambda *_: None\nraise ValueError('x')", "exception", "ValueError: x"),
    ("sys.last_value = ValueError('noted, as pytest notes failures of tests')", "ok", ""),
], ids=["mute", "no hook", "another hook", "only noted"])
def test_a_rank_that_raises_is_recorded_so_whatever_the_program_made_of_exceptions(
        does: str, outcome: str, says: str, tmp_path: Path) -> None:
    script = tmp_path / "raises.py"
    script.write_text('import sys\nimport torch.distributed as dist\n'
                      f'dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)\n{does}\n')
    ran = subprocess.run([*record(tmp_path / "trace"), sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ran.returncode == (outcome == "exception"), ran.stderr
    [file] = (tmp_path / "trace").glob("*.jsonl")
    end = json.loads(file.read_text().splitlines()[-1])
    assert (end["kind"], end["outcome"], end.get("detail", "")) == ("end", outcome, says)


LATE = """import datetime, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=TIMEOUT))
dist.all_reduce(torch.zeros(3))
if dist.get_rank() == 1:
    time.sleep(2.5)
CALL
"""


@pytest.mark.parametrize(("call", "timeout"), [
    ("dist.all_reduce(torch.zeros(3))", 1.0), ("dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))", 60.0)])
def test_a_rank_that_comes_after_the_deadline_of_another_was_late(call: str, timeout: float, tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text(LATE.replace("TIMEOUT", str(timeout)).replace("CALL", call))
    run_job(script, 2, tmp_path / "trace", tmp_path)
    report = lockstep.check(tmp_path / "trace")
    [finding] = report.law("progress").findings
    assert finding.cause == "slow-rank0-timeout", str(report)
    assert "timed out in" in finding.message and "late.py:8" in finding.message


def test_recording_from_inside_a_script_ends_with_the_block(tmp_path: Path) -> None:
    script = tmp_path / "inside.py"
    script.write_text(
        'import lockstep, os, sys, torch, torch.distributed as dist\n'
        'from torch import nn\n'
        'from torch.nn.parallel import DistributedDataParallel\n'
        'dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)\n'
        'init = DistributedDataParallel.__init__\n'
        'with lockstep.record(sys.argv[1]):\n'
        '    assert DistributedDataParallel.__init__ is not init\n'
        '    model = DistributedDataParallel(nn.Linear(2, 1))\n'
        '    model(torch.ones(1, 2)).sum().backward()\n'
        'assert DistributedDataParallel.__init__ is init\n'
        'model(torch.ones(1, 2)).sum().backward()\n')
    ran = subprocess.run([sys.executable, str(script), str(tmp_path / "trace")], capture_output=True,
                         text=True)
    assert ran.returncode == 0 or "without an active exception" in ran.stderr, ran.stderr  # PyTorch's own end.
    [path] = (tmp_path / "trace").glob("*.jsonl")
    lines = path.read_text().splitlines()
    assert sum('"kind":"backward"' in line for line in lines) == 1
    assert '"outcome":"ok"' in lines[-1]


def test_a_job_goes_on_when_its_trace_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    environment = dict(os.environ, LOCKSTEP_RECORD=str(blocked / "trace"), RANK="0", WORLD_SIZE="1",
                       MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    start = Path(lockstep.__file__).parent / "start"
    environment["PYTHONPATH"] = f"{start}{os.pathsep}{environment['PYTHONPATH']}"
    ran = subprocess.run([sys.executable, str(SCRIPTS / "clean.py")], capture_output=True, text=True,
                         env=environment)
    assert "nothing is recorded" in ran.stderr
    assert ran.returncode == 0 or "without an active exception" in ran.stderr, ran.stderr


RATE = """
class Rate(float):
    def __float__(self):
        raise ValueError("a rate cannot be read")
"""


def test_what_the_recorder_misses_is_said_once_and_changes_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    weights = {}
    for name, rate in (("plain", "0.1"), ("odd", "Rate(0.1)")):
        script.write_text(
            'import torch, torch.distributed as dist\n'
            'from torch.nn.parallel import DistributedDataParallel\n' + RATE +
            'dist.init_process_group("gloo")\n'
            'torch.manual_seed(1)\n'
            'model = DistributedDataParallel(torch.nn.Linear(3, 2))\n'
            f'optimizer = torch.optim.SGD(model.parameters(), lr={rate})\n'
            'generator = torch.Generator().manual_seed(dist.get_rank())\n'
            'for _ in range(4):\n'
            '    optimizer.zero_grad()\n'
            '    model(torch.randn(4, 3, generator=generator)).square().mean().backward()\n'
            '    optimizer.step()\n'
            f'path = "{tmp_path}/{name}.weights" + str(dist.get_rank())\n'
            'open(path, "wb").write(model.module.weight.detach().numpy().tobytes())\n')
        (tmp_path / f"{name}_said").mkdir()
        ran = run_job(script, 2, tmp_path / name, tmp_path / f"{name}_said")
        assert ran.codes == [0, 0], ran.output
        weights[name] = [(tmp_path / f"{name}.weights{rank}").read_bytes() for rank in range(2)]
        said = sorted(line for line in ran.output.splitlines() if "the recorder missed" in line)
        expected = [f"lockstep: rank {rank}: the recorder missed something, and the job goes on: stepping: "
                    "ValueError: a rate cannot be read" for rank in range(2)]
        assert said == (expected if name == "odd" else []), ran.output
        report = lockstep.check(tmp_path / name)
        assert report.ok, f"{report}: what is missing in a trace accuses no rank"
        notes = ["not recorded on ranks 0, 1, so not checked: stepping: ValueError: a rate cannot be read"]
        assert list(report.notes) == (notes if name == "odd" else [])
    assert weights["odd"] == weights["plain"] and weights["odd"][0]


def test_ranks_that_are_forked_after_pytorch_was_imported_end_in_their_traces(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(
        'import os, torch, torch.distributed as dist, torch.multiprocessing as mp\n'
        'def rank(index):\n'
        '    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29517", rank=index, world_size=2)\n'
        '    dist.all_reduce(torch.zeros(3))\n'
        'if __name__ == "__main__":\n'
        '    ranks = [mp.get_context("fork").Process(target=rank, args=(index,)) for index in range(2)]\n'
        '    [one.start() for one in ranks]\n'
        '    [one.join() for one in ranks]\n')
    with reserved_ports() as port:
        script.write_text(script.read_text().replace("29517", str(port)))
        ran = subprocess.run([*record(tmp_path / "trace"), sys.executable, str(script)], capture_output=True,
                             text=True, timeout=100)
    assert "recorded 2 ranks" in ran.stderr, ran.stderr
    for path in (tmp_path / "trace").glob("*.jsonl"):
        assert '"kind":"end","outcome":"ok"' in path.read_text().splitlines()[-1]
    assert lockstep.check(tmp_path / "trace").ok


def record_on_two_nodes(script: Path, ranks: int, folders: tuple[Path, Path]) -> None:
    """Two launchers of this many ranks each, which share no folder."""
    with reserved_ports() as port:
        nodes = [subprocess.Popen(
            [*record(folder), sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node),
             "--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1", "--master-port", str(port), str(script)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for node, folder in enumerate(folders)]
        outputs = [node.communicate(timeout=200)[0] for node in nodes]
    for node, output in zip(nodes, outputs):
        assert node.returncode == 0 or "without an active exception" in output, output


def test_the_folders_of_two_nodes_are_one_job(tmp_path: Path) -> None:
    here, there = folders = (tmp_path / "here", tmp_path / "there")
    record_on_two_nodes(SCRIPTS / "clean.py", 1, folders)
    report = lockstep.check(folders)
    assert report.ok and report.ranks == 2, str(report)
    assert report.law("samples-covered").verdict == "holds"
    assert not report.notes, report.notes
    command = [sys.executable, "-m", "lockstep", "check", str(here), str(there)]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.count("(2 ranks)") == 1, said.stdout


def test_a_bug_is_named_across_nodes_and_what_one_node_alone_cannot_show_is_said(tmp_path: Path) -> None:
    here, there = folders = (tmp_path / "here", tmp_path / "there")
    record_on_two_nodes(SCRIPTS / "bypass.py", 2, folders)
    findings = {finding.law: finding for finding in lockstep.check(folders).findings}
    assert findings["reduced-once"].ranks == (0, 1, 2, 3)
    assert findings["reduced-once"].cause == "bypass-wrapper"
    assert findings["replicas-equal"].ranks == (1, 2, 3), "all that differ from rank 0"
    for folder, ranks in ((here, "ranks 2, 3"), (there, "ranks 0, 1")):
        report = lockstep.check(folder)
        assert "progress" not in {finding.law for finding in report.findings}, "no rank crashed"
        [note] = report.notes
        assert note.startswith(f"{ranks} have left no trace here"), note


def test_one_folder_given_twice_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    run_job(SCRIPTS / "clean.py", 2, trace, tmp_path)
    with pytest.raises(ValueError, match="holds the events that .* holds too"):
        lockstep.check([trace, trace])
