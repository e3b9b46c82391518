"""The `lockstep` command of the package: `record`, and everything the native command offers."""
from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.arming import BUDGET, FOLDER
from lockstep.reaping import reap

if TYPE_CHECKING:
    from types import FrameType

NATIVE = Path(__file__).parent / "bin" / "lockstep"
START = Path(__file__).parent / "start"
POLL_S = 0.2
TERMINATE_S = 40.0  # torchrun gives its workers 30 s.

RECORD_HELP = """\
Records every rank that COMMAND starts, without an edit of its script:

  lockstep record -- torchrun --nproc-per-node 2 train.py
  lockstep check lockstep-trace

COMMAND may be any launcher: what is recorded is each Python process below it that joins a process
group of torch.distributed. The exit code is COMMAND's."""


def entry() -> None:
    """What the installed script calls."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Runs the command. Returns: its exit code; 2 for what cannot be understood."""
    if arguments[:1] == ["record"]:
        return record(arguments[1:])
    if not NATIVE.exists():
        print(f"lockstep: {NATIVE} is missing: only `lockstep record` works", file=sys.stderr)
        return 2
    if not os.access(NATIVE, os.X_OK):
        NATIVE.chmod(0o755)  # Wheels of old installers lose the mark.
    os.execv(NATIVE, [str(NATIVE), *arguments])


def record(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("lockstep record", description=RECORD_HELP,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default="lockstep-trace", metavar="DIR",
                        help="the folder of the trace, one file per rank (%(default)s)")
    parser.add_argument("--budget", type=float, default=0.0, metavar="SHARE",
                        help="the share of the time that recording may take, such as 0.05: gradients "
                             "and states are looked at in every k-th step (default: in each)")
    parser.add_argument("--stuck-after", type=float, metavar="SECONDS",
                        help="end the job once no rank has recorded anything for so long "
                             "(default: never)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND...")
    given = parser.parse_args(arguments)
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("name what is to be recorded: lockstep record -- torchrun ... train.py")
    if given.stuck_after is not None and given.stuck_after <= 0:
        parser.error(f"--stuck-after {given.stuck_after}: must be above 0")
    if not 0.0 <= given.budget < 1.0:
        parser.error(f"--budget {given.budget}: must be a share of the time, such as 0.05")
    folder = Path(given.output).absolute()
    if any(folder.glob("*.jsonl")):
        parser.error(f"{given.output}: holds a trace already; choose another folder with -o")
    environment = _environment(folder, given.budget, given.stuck_after)
    return _run(command, environment, folder, given.output, given.stuck_after)


def _environment(folder: Path, budget: float, stuck_after: float | None) -> dict[str, str]:
    environment = dict(os.environ)
    environment[FOLDER] = str(folder)
    if budget:
        environment[BUDGET] = str(budget)
    environment["LOCKSTEP_RUN"] = uuid.uuid4().hex[:12] + "-run"
    paths = [str(START), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    if stuck_after is not None:
        environment["LOCKSTEP_STUCK_AFTER"] = str(stuck_after)
    return environment


def _run(command: list[str], environment: dict[str, str], folder: Path, shown: str,
         stuck_after: float | None) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        job = subprocess.Popen(command, env=environment)
    except OSError as error:
        print(f"lockstep: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127

    def pass_on(number: int, _frame: FrameType | None) -> None:
        job.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, lambda *_: None)  # A terminal sends it to the job as well.
    code = _wait(job, folder, stuck_after)
    ranks = reap(folder)
    if not ranks:
        print("lockstep: nothing was recorded: no Python process of the job joined a process group",
              file=sys.stderr)
    else:
        print(f"lockstep: recorded {ranks} rank{'s' * (ranks != 1)} into {shown}; "
              f"judge: lockstep check {shown}", file=sys.stderr)
    return 128 - code if code < 0 else code


def _wait(job: subprocess.Popen[bytes], folder: Path, stuck_after: float | None) -> int:
    if stuck_after is None:
        return job.wait()
    while True:
        try:
            return job.wait(POLL_S)
        except subprocess.TimeoutExpired:
            silent = _silent_for(folder)
        if silent > stuck_after + 2 * POLL_S:
            print(f"lockstep: no rank has recorded anything for {silent:.0f} s: ending the job",
                  file=sys.stderr)
            return _end(job)


def _silent_for(folder: Path) -> float:
    """Seconds since a rank last recorded something; 0 before the first has."""
    times = [path.stat().st_mtime for path in folder.glob("*.jsonl")]
    return time.time() - max(times) if times else 0.0


def _end(job: subprocess.Popen[bytes]) -> int:
    job.terminate()
    try:
        return job.wait(TERMINATE_S)
    except subprocess.TimeoutExpired:
        job.kill()
        return job.wait()
