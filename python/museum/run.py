#!/usr/bin/env python3
"""The museum: bugs in released packages, recorded and judged, and the releases that fixed them.

  run.py BUILD [EXHIBIT...]      all of them, or these; needs the network the first time
  run.py BUILD --list            what there is
  run.py BUILD --shipped [NAME..]  scripts and tests that packages ship, recorded and not (shipping.py)

Each exhibit is a plain script of at most sixty lines that is run on two ranks under torchrun: once with
the buggy release, which Lockstep must name, and once with the fixed one, where it must be silent. The
exit code is 1 if it was not so.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from museum import exhibits, judging, releases, shipping  # noqa: E402

if TYPE_CHECKING:
    from museum.exhibits import Exhibit

LIMIT_S = 240


class NoResult(Exception):
    """A job that recorded nothing. For people."""


def environment(build: Path, folders: list[Path], exhibit: Exhibit) -> dict[str, str]:
    paths = [build / "python", *folders]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore", "GLOO_SOCKET_IFNAME": "lo",
            "HF_HUB_OFFLINE": "1", **exhibit.environment}


def record(build: Path, exhibit: Exhibit, version: str) -> Path:
    """Runs the job with this release. Returns: the folder of its trace. Raises NoResult."""
    python = build / f"torch-{exhibit.torch}" / "bin" / "python"
    museum = build / "museum"
    folders = [releases.install(museum, python, release) for release in exhibit.releases(version)]
    scratch = museum / "traces" / f"{exhibit.name}-{version}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    launcher = [str(python), "-m", "torch.distributed.run", "--nproc-per-node", str(exhibit.ranks)]
    command = [str(python), "-m", "lockstep", "record", "--stuck-after", str(exhibit.stuck_after), "-o",
               str(scratch / "trace"), "--", *launcher, str(exhibit.script)]
    try:
        ran = subprocess.run(command, env=environment(build, folders, exhibit), cwd=scratch,
                             capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise NoResult(f"{exhibit.name} with {version}: no end after {LIMIT_S} s") from None
    (scratch / "output.txt").write_text(ran.stdout + ran.stderr)
    if not any((scratch / "trace").glob("*.jsonl")):
        raise NoResult(f"{exhibit.name} with {version}: nothing was recorded; see {scratch}/output.txt")
    return scratch / "trace"


def report_of(build: Path, exhibit: Exhibit, version: str) -> Any:
    import lockstep

    return lockstep.check(record(build, exhibit, version), buffers=exhibit.buffers)


def show(build: Path, chosen: list[Exhibit]) -> int:
    verdicts = []
    for exhibit in chosen:
        print(f"== {exhibit.name}: {exhibit.package} {exhibit.buggy} and {exhibit.fixed}",
              file=sys.stderr, flush=True)
        try:
            reports = [report_of(build, exhibit, version) for version in (exhibit.buggy, exhibit.fixed)]
            verdicts.append(judging.judge(exhibit, *reports))
        except (NoResult, releases.NotInstalled) as failure:
            verdicts.append(judging.Verdict(exhibit.name, "NO RESULT", "NO RESULT", (str(failure),)))
    print(judging.table(verdicts))
    complaints = [complaint for verdict in verdicts for complaint in verdict.complaints]
    for complaint in complaints:
        print(f"museum: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def show_shipped(build: Path, chosen: list[shipping.Job]) -> int:
    outcomes = []
    for job in chosen:
        print(f"== {job.package}: {job.name}", file=sys.stderr, flush=True)
        try:
            outcomes.append(shipping.visit(build, job))
        except releases.NotInstalled as failure:
            outcomes.append(shipping.Outcome(job, 0, "NO RESULT", (str(failure),)))
        for complaint in outcomes[-1].complaints:
            print(f"museum: {complaint}", file=sys.stderr, flush=True)
    complaints = [complaint for outcome in outcomes for complaint in outcome.complaints]
    print(shipping.table(outcomes))
    return 1 if complaints else 0


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    build, asked = Path(arguments[0]).absolute(), arguments[1:]
    try:
        if asked == ["--list"]:
            for exhibit in exhibits.chosen([]):
                print(f"{exhibit.name}: {exhibit.package} {exhibit.buggy}. {exhibit.wrong}")
            return 0
        shipped = shipping.chosen(asked[1:]) if asked[:1] == ["--shipped"] else None
        chosen = exhibits.chosen(asked) if shipped is None else []
    except exhibits.Refused as refusal:
        print(f"museum: {refusal}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(build / "python"))
    return show(build, chosen) if shipped is None else show_shipped(build, shipped)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
