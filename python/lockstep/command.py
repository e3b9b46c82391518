"""The `lockstep` command of the package: `record`, and everything the native command offers."""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep import env_comparisons, stop_note, terminal
from lockstep.autostart import BUDGET, FOLDER
from lockstep.command_line import EXIT_USAGE, Parser, Usage, seconds
from lockstep.lasting import Lasting
from lockstep.live import Judge, law_to_stop_on
from lockstep.native import command
from lockstep.report import check
from lockstep.signal_forwarding import PassingOn
from lockstep.trace_claim import claim
from lockstep.trace_completion import reap

if TYPE_CHECKING:
    from lockstep.report import Finding

START = Path(__file__).parent / "start"
POLL_S = 0.2
TERMINATE_S = 40.0  # torchrun gives its workers 30 s.

RECORD_HELP = """\
Records every rank that COMMAND starts, without an edit of its script:

  lockstep record -- torchrun --nproc-per-node 2 train.py
  lockstep check lockstep-trace

COMMAND may be any launcher: what is recorded is each Python process below it that joins a process
group of torch.distributed.

The exit code is COMMAND's; 128 + N where a signal N ended it, also one that this command was sent, which is
passed on. With --live it is 1 where COMMAND ended well and a law was broken, and
where COMMAND was ended for a broken law; 2 for what cannot be understood."""


def entry() -> None:
    """What the installed script calls."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Runs the command. Returns: its exit code; 2 for what cannot be understood."""
    return terminal.ended(lambda: _run(arguments))


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["record"]:
        return record(arguments[1:])
    if arguments[:1] == ["torchrun"]:
        from lockstep.virtual.launch import main as torchrun
        return torchrun(arguments[1:])
    if arguments[:1] == ["run"] and any(word == "-m" or word.endswith(".py") for word in arguments[1:]):
        from lockstep.virtual.launch import main as run_script
        return run_script(arguments[1:], alone=True)
    if arguments[:1] == ["crosscheck"]:
        from lockstep import crosscheck

        if crosscheck.is_meant(arguments[1:]):
            return crosscheck.main(arguments[1:])
    if arguments[:1] == ["reproduce"]:
        from lockstep.reproduce import main as reproduce

        return reproduce(arguments[1:])
    try:
        native = command()
    except FileNotFoundError as error:
        terminal.warn(f"lockstep: {error}")
        return EXIT_USAGE
    os.execv(native, [native, *arguments])


def record(arguments: list[str]) -> int:
    """Returns: the exit code."""
    try:
        given, words, stop_on = _parse_record(arguments)
        with claim(given.output, "-o"):
            env_comparisons.say(words)
            folder = Path(given.output).absolute()
            environment = _environment(folder, given.budget, given.stuck_after)
            judge = Judge(folder, stop_on, _say) if given.live or stop_on else None
            return Recording(folder, given.output, given.stuck_after, judge).run(words, environment)
    except Usage as error:
        terminal.warn(f"lockstep record: {error}")
        return EXIT_USAGE


def _parse_record(arguments: list[str]) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Returns: options, the words of COMMAND, and laws to stop on. Raises Usage."""
    parser = Parser("lockstep record", description=RECORD_HELP,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default="lockstep-trace", metavar="DIR",
                        help="the folder of the trace, one file per rank (%(default)s)")
    parser.add_argument("--budget", type=float, default=0.0, metavar="SHARE",
                        help="the share of the time that recording may take, such as 0.05: gradients "
                             "and states are looked at in every k-th step (default: in each)")
    parser.add_argument("--stuck-after", type=seconds, metavar="SECONDS",
                        help="end the job once no rank has recorded anything for so long "
                             "(default: never)")
    parser.add_argument("--live", action="store_true",
                        help="judge while the job runs: a broken law is named as soon as it is certain")
    parser.add_argument("--stop-on", action="append", default=[], metavar="LAW",
                        help="end the job once this law is broken; 'any': once any is (includes --live; "
                             "may be repeated)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND...")
    given = parser.parse_args(arguments)
    words = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not words:
        raise Usage("name what is to be recorded: lockstep record -- torchrun ... train.py")
    if given.stuck_after == 0:
        raise Usage("--stuck-after 0: must be above 0")
    if not 0.0 <= given.budget < 1.0:
        raise Usage(f"--budget {given.budget}: must be a share of the time, such as 0.05")
    try:
        return given, words, [law_to_stop_on(name) for name in given.stop_on]
    except ValueError as error:
        raise Usage(f"--stop-on: {error}") from None


def _environment(folder: Path, budget: float, stuck_after: float | None) -> dict[str, str]:
    environment = dict(os.environ)
    environment[FOLDER] = str(folder)
    if budget:
        environment[BUDGET] = str(budget)
    environment["LOCKSTEP_STARTED"] = uuid.uuid4().hex[:12] + "-run"
    paths = [str(START), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    if stuck_after is not None:
        environment["LOCKSTEP_STUCK_AFTER"] = str(stuck_after)
    return environment


def _say(finding: Finding) -> None:
    cause = f" Likely cause: {finding.cause}." if finding.cause else ""
    terminal.warn(f"lockstep: {finding.sentence}{cause}")


class Recording:
    """One job, from its start to the verdict."""

    def __init__(self, folder: Path, shown: str, stuck_after: float | None, judge: Judge | None) -> None:
        self.folder = folder
        self.shown = shown  # The folder as the user wrote it.
        self.stuck_after = stuck_after
        self.judge = judge
        self.stopped_for = ""  # A law.

    def run(self, command: list[str], environment: dict[str, str]) -> int:
        """Returns: the exit code."""
        signals = PassingOn()
        try:
            job = subprocess.Popen(command, env=environment, preexec_fn=signals.ignore_what_was_ignored)
        except OSError as error:
            terminal.warn(f"lockstep: {command[0]}: {error.strerror}")
            signals.stop()
            return 127
        signals.to(job)
        code = self._wait(job)
        ranks = reap(self.folder)
        signals.stop()
        if not ranks:
            terminal.warn("lockstep: nothing was recorded: no Python process of the job joined a process group")
        else:
            terminal.warn(f"lockstep: recorded {ranks} rank{'s' * (ranks != 1)} into {self.shown}; "
                        f"judge: lockstep check {self.shown}")
        code = 128 - code if code < 0 else code
        if signals.first and code:
            code = 128 + signals.first
        return self._verdict(code) if self.judge is not None and ranks else code

    def _verdict(self, code: int) -> int:
        """Says what is known at the end only. Returns: the exit code."""
        assert self.judge is not None
        try:
            report = check(self.folder)
        except ValueError as error:
            terminal.warn(f"lockstep: the trace cannot be judged: {error}")
            return code or 2
        self.judge.take(report)
        if self.stopped_for:
            return 1
        if not report.findings:
            terminal.warn("lockstep: no law is broken")
        return code or int(bool(report.findings))

    def _wait(self, job: subprocess.Popen[bytes]) -> int:
        if self.stuck_after is None and self.judge is None:
            return job.wait()
        silence = Lasting()
        while True:
            try:
                return job.wait(POLL_S)
            except subprocess.TimeoutExpired:
                last = _last_record(self.folder)
                silent_s = silence.look(last) if last else 0.0
            if self.stuck_after is not None and silent_s > self.stuck_after + 2 * POLL_S:
                terminal.warn(f"lockstep: no rank has recorded anything for {silent_s:.0f} s: ending the job")
                stop_note.write(self.folder, stop_note.STANDSTILL)
                return _end(job)
            if self.judge is not None:
                self.stopped_for = self.judge.look(silent_s)
                if self.stopped_for:
                    terminal.warn(f"lockstep: law {self.stopped_for} is broken: ending the job")
                    stop_note.write(self.folder, self.stopped_for)
                    return _end(job)


def _last_record(folder: Path) -> int:
    """When a rank last recorded something, by the clock of the file system; 0 before the first has."""
    return max((path.stat().st_mtime_ns for path in folder.glob("*.jsonl")), default=0)


def _end(job: subprocess.Popen[bytes]) -> int:
    job.terminate()
    try:
        return job.wait(TERMINATE_S)
    except subprocess.TimeoutExpired:
        job.kill()
        return job.wait()
