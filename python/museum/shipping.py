"""Scripts and tests that packages ship, run without the recorder and with it: no law may accuse them, and
what they print must not change."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from museum import releases
from museum.exhibits import Refused

HERE = Path(__file__).resolve().parent / "shipped"
LIMIT_S = 600
TORCH = "torch-2.15.0"
# Times, addresses, ports and processes; what torchrun and the recorder say of themselves, and PyTorch's profiler.
_VARIES = re.compile(r"0x[0-9a-f]+|\b\d+(\.\d+)?\s?(ms|s|it/s)\b|\b\d{4}-\d\d-\d\d[ T][\d:.,]+|\b\d\d:\d\d:\d\d[.,]?\d*"
                     r"|\bpid[ =:]\d+|:\d{4,5}\b|/tmp/\S+|\bpytorch-errorfile\S*")
_LEFT_OUT = re.compile(r"^(lockstep: |[WEI]\d{4} |[A-Z]+#-\d\d-\d\d [#\d ]+\w+\.cpp:\d+\] )|torch/distributed/run\.py")


@dataclass(frozen=True)
class Job:
    """One script of a package, or one test."""

    package: str
    name: str
    script: str
    releases: tuple[str, ...] = ()
    launched: bool = True  # By torchrun, on two ranks; otherwise it starts its ranks itself.
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    code: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    job: Job
    events: int
    says: str  # A cell of the table.
    complaints: tuple[str, ...] = ()


def jobs(folder: Path = HERE) -> list[Job]:
    """All of them. Raises Refused, with what is wrong with the list."""
    try:
        given = tomllib.loads((folder / "jobs.toml").read_text())
        return [Job(package, name, **_plain(row)) for package, row in given.items()
                for name in row.pop("names")]
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise Refused(f"{folder / 'jobs.toml'}: {error}") from None


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
            if key != "names"}


def chosen(asked: list[str]) -> list[Job]:
    """The jobs of these names or packages, or all. Raises Refused for a name that is neither."""
    every = jobs()
    for name in asked:
        if not any(name in (job.name, job.package) for job in every):
            raise Refused(f"nothing shipped is called '{name}'; there are "
                          f"{', '.join(job.name for job in every)}")
    return [job for job in every if not asked or job.name in asked or job.package in asked]


def normalised(text: str) -> tuple[str, ...]:
    """The lines without what differs from run to run, in alphabetical order: ranks print as they come."""
    lines = (_VARIES.sub("#", line.rstrip()) for line in text.splitlines())
    return tuple(sorted(line for line in lines if line and not _LEFT_OUT.search(line)))


def difference(plain: Ran, recorded: Ran) -> str:
    """The first thing in which two runs differ, or nothing."""
    if plain.code != recorded.code:
        return f"exit code {plain.code} became {recorded.code}"
    added = [line for line in recorded.lines if recorded.lines.count(line) > plain.lines.count(line)]
    missing = [line for line in plain.lines if plain.lines.count(line) > recorded.lines.count(line)]
    if added:
        return f"it also prints: {added[0]}"
    return f"it no longer prints: {missing[0]}" if missing else ""


def judge(job: Job, plain: Ran, recorded: Ran, report: Any, events: int) -> Outcome:
    complaints = []
    if plain.code != 0:
        complaints.append(f"{job.name} fails without the recorder: exit code {plain.code}")
    if report is None or events == 0:
        complaints.append(f"{job.name}: nothing was recorded")
    elif not report.ok:
        given = "; ".join(map(str, report.findings)) or report.error or report.outcome
        complaints.append(f"{job.name} is accused: {given}")
    differs = difference(plain, recorded)
    if differs:
        complaints.append(f"{job.name} is changed by the recorder: {differs}")
    return Outcome(job, events, "COMPLAINT" if complaints else " ".join(["ok", *advised(report)]), tuple(complaints))


def advised(report: Any) -> list[str]:
    """The advice that a report gives: a script that is well may deserve some."""
    return [line.partition(":")[0] for law in report.laws for line in law.advice]


def table(outcomes: list[Outcome]) -> str:
    rows = [("package", "script", "events", "judged"),
            *((one.job.package, one.job.name, f"{one.events:,}", one.says) for one in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def execute(build: Path, job: Job, folder: Path | None) -> Ran:
    """Runs it, recorded into the folder if one is given."""
    python = str(build / TORCH / "bin" / "python")
    found = [releases.install(build / "museum", Path(python), release)
             for release in releases.expanded(job.releases)]
    command = [python, str(HERE / job.script), job.name]
    scratch = build / "museum" / "shipped" / f"{job.name}{'' if folder is None else '-recorded'}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    if job.launched:
        command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                   "--redirects", "3", "--log-dir", str(scratch / "ranks"), *command[1:]]
    if folder is not None:
        command = [python, "-m", "lockstep", "record", "-o", str(folder), "--", *command]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, [build / "python", *found])),
        "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
        "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1", **job.environment}
    try:
        ran = subprocess.run(command, env=environment, cwd=scratch, capture_output=True, text=True,
                             timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return Ran(124, (f"no end after {LIMIT_S} s",))
    (scratch / "output.txt").write_text(ran.stdout + ran.stderr)
    lines = normalised(ran.stdout + "\n" + ran.stderr)
    for path in sorted((scratch / "ranks").rglob("*.log")):  # Otherwise ranks print into each other's lines.
        rank = f"rank {path.parent.name}: "
        lines += tuple(rank + line for line in normalised(path.read_text()))
    return Ran(ran.returncode, lines)


def visit(build: Path, job: Job) -> Outcome:
    """Both runs and the verdict. Raises NotInstalled."""
    import lockstep

    folder = build / "museum" / "traces" / f"shipped-{job.name}"
    shutil.rmtree(folder, ignore_errors=True)
    plain, recorded = execute(build, job, None), execute(build, job, folder)
    files = sorted(folder.glob("*.jsonl"))
    events = sum(sum(1 for _ in path.open()) - 1 for path in files)
    return judge(job, plain, recorded, lockstep.check(folder) if files else None, events)
