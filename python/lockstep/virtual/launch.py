"""`lockstep torchrun`: runs a script as virtual ranks, says what came of it, and judges what it did."""
from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep import report, terminal
from lockstep.command_line import EXIT_USAGE, Usage
from lockstep.trace_claim import claim
from lockstep.trace_completion import End, reap
from lockstep.virtual import options as command_line
from lockstep.virtual.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_FAILED = 3
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
FIRST_WORDS = {
    "ok": "", "failed": "FAILED", "deadlock": "DEADLOCK: no rank can continue",
    "livelock": "LIVELOCK: ranks only sleep and poll", "interrupted": "INTERRUPTED"}


@dataclass
class Outcome:
    """What one run came to."""

    found: Any  # lockstep._core.Coordination
    attempts: int
    report: report.Report | None = None
    lines: list[tuple[int, str]] = field(default_factory=list)  # Rank and line that was printed.
    # Of a script that starts its ranks itself:
    called: str = ""  # Its line that started them.
    others: list[Outcome] = field(default_factory=list)  # Its further jobs.
    script_code: int = 0  # Its exit code, where no rank is to blame.

    @property
    def ok(self) -> bool:
        well = self.found["outcome"] == "ok" and (self.report is None or self.report.ok)
        return well and not self.script_code and all(each.ok for each in self.others)


class ScriptFailed(Exception):
    """A script that starts its ranks itself failed before it had started any."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the script ended with exit code {code} before it had started ranks")


class _Terminated(BaseException):
    """SIGTERM has come."""


def _terminate(*_: object) -> None:
    raise _Terminated


def _leave(number: int, _frame: object) -> None:
    """While modules are imported an exception may end up in any of them; and there is nothing yet to remove."""
    os.write(2, f"lockstep: {FIRST_WORDS['interrupted']}: no rank had started\n".encode())
    os._exit(128 + number)


def _take_signals(on_term: Callable[..., None], on_int: Callable[..., Any]) -> None:
    signal.signal(signal.SIGTERM, on_term)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # As where a shell without job control starts this with `&`.
        signal.signal(signal.SIGINT, on_int)


def main(arguments: Sequence[str], alone: bool = False) -> int:
    """`lockstep torchrun`, and `lockstep run` of a script that starts its ranks itself.

    Returns: the exit code, as that of `lockstep run` of a scenario.
    """
    name = "run" if alone else "torchrun"
    _take_signals(_leave, _leave)
    terminal.require_output()
    try:
        given = command_line.parse(arguments, alone)
        with claim(given.trace, "--trace") if given.trace else nullcontext():
            return _start(given, name)
    except Usage as error:
        terminal.warn(f"lockstep {name}: {error}")
        return EXIT_USAGE


def _start(given: Options, name: str) -> int:
    """Returns: the exit code."""
    from lockstep import env_comparisons
    from lockstep.virtual import zygote
    from lockstep.virtual.connection import Refused

    env_comparisons.say([given.program])
    try:
        if not given.separate:
            zygote.prepare(given.preload)
        _take_signals(_terminate, signal.default_int_handler)  # So that what is temporary is removed.
        return _run_all(given)
    except (Refused, ValueError) as error:
        terminal.warn(f"lockstep {name}: {error}")
        return EXIT_USAGE
    except ScriptFailed as error:
        terminal.warn(f"lockstep: {FIRST_WORDS['failed']}: {error}")
        return EXIT_FINDINGS
    except OSError as error:  # No descriptors, processes or memory are left, or no room on a disk.
        terminal.warn(f"lockstep {name}: {error}")
        return EXIT_FAILED
    except (KeyboardInterrupt, _Terminated) as stopped:
        if terminal.lost() is None:
            terminal.warn(f"lockstep: {FIRST_WORDS['interrupted']}: the ranks were ended")
        return EXIT_INTERRUPTED if isinstance(stopped, KeyboardInterrupt) else EXIT_TERMINATED


def _run_all(given: Options) -> int:
    if given.explore:
        from lockstep.virtual.exploring import explore

        return explore(given)
    if given.as_one_rank:
        from lockstep.virtual import as_one_rank

        outcome, judgement = as_one_rank.run(given)
        say(outcome, given)
        terminal.say(str(judgement))
        return max(_code(outcome), EXIT_FINDINGS if judgement.verdict is as_one_rank.Verdict.BROKEN else EXIT_OK)
    outcome = run(given, given.seed, given.trace)
    say(outcome, given)
    if given.shrink and not outcome.ok and outcome.found["outcome"] != "interrupted":
        from lockstep.virtual.exploring import say_smallest

        say_smallest(given, given.seed, outcome)
    if given.twice and outcome.found["outcome"] != "interrupted":
        return max(_code(outcome), _compare_again(given))
    return _code(outcome)


def _code(outcome: Outcome) -> int:
    if outcome.found["outcome"] == "interrupted":
        return EXIT_INTERRUPTED
    return EXIT_OK if outcome.ok else EXIT_FINDINGS


def run(given: Options, seed: int, trace: str, quiet: bool = False) -> Outcome:
    """Runs the script that is given.

    Args:
        trace: the folder to keep the trace in; "" = it is removed.
    """
    from lockstep.virtual import rank, script_job

    if given.alone:
        return script_job.run(given, seed, trace, quiet)
    return run_ranks(given, seed, trace, quiet, rank.Script(given.program, given.is_module))


def run_ranks(given: Options, seed: int, trace: str, quiet: bool, program: Callable[[], Any],
              attempt: Callable[..., Any] | None = None) -> Outcome:
    """One job in which every rank runs the program: its attempts, and the laws on what the last of them recorded.

    Args:
        attempt: runs the ranks as zygote.run_attempt does, which is taken if there is none.
    """
    if not given.record:
        return _attempts(given, seed, "", quiet, program, attempt)
    folder = Path(trace or tempfile.mkdtemp(prefix="lockstep-")).absolute()
    if trace and any(folder.glob("*.jsonl")):
        raise Usage(f"{trace}: holds a trace already; choose another folder with --trace")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        outcome = _attempts(given, seed, str(folder), quiet, program, attempt)
        ends = {rank: _end_of(end) for rank, end in enumerate(outcome.found["ends"])}
        if reap(folder, ends):
            outcome.report = report.check(folder, allow=given.allow, buffers=given.buffers)
        return outcome
    finally:
        if not trace:
            shutil.rmtree(folder, ignore_errors=True)


def _end_of(end: Any) -> End:
    """The end of a rank that did not write its own."""
    if end["outcome"] == "stuck":
        return End("stuck", end["text"] or "no rank could go on")
    if end["outcome"] == "threw":
        return End("exception", end["text"])
    return End("killed", end["text"] or "the process was gone before it could say how it ended")


def _attempts(given: Options, seed: int, trace: str, quiet: bool, program: Callable[[], Any],
              run_attempt: Callable[..., Any] | None) -> Outcome:
    """Starts the job, and again while ranks fail and restarts are left. The store is kept."""
    from lockstep.virtual import descriptors, rank, separate, zygote
    from lockstep.virtual.output import Printer

    descriptors.require(given.ranks, memory_passed=given.separate)
    how = zygote.Coordinated(
        mode="serial" if given.serial else "parallel", strategy=given.strategy, seed=seed,
        order=given.order, pairing=given.pairing, expire=given.expire, faults=given.faults,
        limits=(0, 0, given.wall_limit_ms, 0), arena_mb=given.arena_mb)
    settings = rank.Settings(seed=seed, clock=given.clock, trace=trace, device=given.device, watch=given.watch, steps=given.steps,
                             torn=given.torn, inherits_random=given.inherits_random)
    run_attempt = run_attempt or (separate if given.separate else zygote).run_attempt
    printer = Printer(given.prefix, given.log_folder, quiet)
    run_name = uuid.uuid4().hex[:12] + "-run"
    store: Sequence[bytes] = ()
    struck: list[str] = []
    for attempt in range(given.max_restarts + 1):
        places = [_place(given, number, attempt, run_name) for number in range(given.ranks)]
        found = run_attempt(places, settings, how, (given.program, *given.arguments), program, printer, store)
        struck += [*found["struck"], *_torn_saves(found, settings)]
        if found["outcome"] != "failed" or attempt == given.max_restarts:
            found["struck"] = struck
            if len(struck) < len(given.faults):
                found["notes"].append(f"{len(struck)} of {len(given.faults)} planned faults struck: the others' calls or saves "
                                      "never came")
            return Outcome(found, attempt + 1, lines=printer.lines)
        terminal.warn(f"lockstep: attempt {attempt} failed: {found['error']}: starting again")
        store = found["store"]
        # Planned faults belong to the first attempt: the job would never get past them.
        how, settings = replace(how, faults=()), replace(settings, torn=())
    raise AssertionError("there is at least one attempt")


def _torn_saves(found: Any, settings: Any) -> list[str]:
    """The torn writes that struck: such a rank kills itself in its save, and nothing else does."""
    killed = {rank for rank, end in enumerate(found["ends"]) if end["signal"] == signal.SIGKILL and not end["stopped"]}
    return [f"rank {rank}: torn-write, {percent} % of save {save}" for rank, save, percent in settings.torn if rank in killed]


def _place(given: Options, number: int, attempt: int, run_name: str) -> Any:
    from lockstep.virtual.rank import Place

    if given.spawned:
        return Place(rank=number, world=given.ranks, local_rank=number, local_world=given.ranks, node=0, nodes=1,
                     attempt=attempt, launched=False, environment={"LOCKSTEP_RUN": run_name})
    return Place(rank=number, world=given.ranks, local_rank=number % given.per_node,
                 local_world=given.per_node, node=number // given.per_node, nodes=given.nodes,
                 attempt=attempt, environment={
                     "MASTER_ADDR": given.master[0], "MASTER_PORT": given.master[1],
                     "TORCHELASTIC_RUN_ID": given.run_id, "ROLE_NAME": "default",
                     "TORCHELASTIC_MAX_RESTARTS": str(given.max_restarts),
                     "TORCHELASTIC_USE_AGENT_STORE": "True", "LOCKSTEP_RUN": run_name})


# -- what is said
def say(outcome: Outcome, given: Options, again: bool = True) -> None:
    """The verdict on the run, then what the laws say."""
    for each in outcome.others:
        say(each, given, again)
    for line in verdict_lines(outcome.found, again):
        terminal.warn(f"lockstep: {line}" if not line.startswith(" ") else line)
    device = "the CPU, which pretends to be CUDA" if given.device.pretends else "the CPU"
    called = f" that {outcome.called} started" if outcome.called else ""
    n = len(outcome.found["ends"])
    where = f"{n} virtual rank{'s' * (n != 1)}{called}, simulated on {device}, sums in the order {given.order}"
    if outcome.report is not None:
        terminal.say(f"lockstep: {where}\n{outcome.report}")
    else:
        terminal.say(f"lockstep: {outcome.found['outcome']}: {where}, not recorded")
    if outcome.script_code:
        terminal.warn(f"lockstep: {FIRST_WORDS['failed']}: the script that started them ended with exit code "
                    f"{outcome.script_code}")


def verdict_lines(found: Any, again: bool = True) -> list[str]:
    """What the coordinator found; empty for a run in which all went well.

    Args:
        again: the option that repeats the schedule is named.
    """
    lines = [f"note: {note}" for note in (*found["notes"], *found["struck"])]
    if found["outcome"] == "ok":
        return lines
    first = FIRST_WORDS[found["outcome"]]
    lines.append(f"{first}: {found['error']}" if found["error"] else first)
    lines += [f"  {line}" for line in found["wait_for"].splitlines()]
    for number, end in enumerate(found["ends"]):
        lines.append(f"  rank {number}: {_how_it_ended(end)}")
        lines += [f"      {line}" for line in found["stacks"][number].splitlines()]
    if found["missing"]:
        lines.append(f"  never came: rank{'s' * (len(found['missing']) > 1)} "
                     f"{', '.join(map(str, found['missing']))}")
    if found["schedule"] and again:
        lines.append(f"  again: --strategy {found['schedule']}")
    return lines


def _how_it_ended(end: Any) -> str:
    text = str(end["outcome"])
    if end["text"]:
        text = end["text"] if end["text"].startswith(text) else f"{text}: {end['text']}"
    if end["signal"] is not None and not end["stopped"]:
        text += f" (signal {end['signal']})"
    return text


# -- more than one run
def _compare_again(given: Options) -> int:
    """Runs the job twice more and compares every event but its time."""
    with tempfile.TemporaryDirectory(prefix="lockstep-") as scratch:
        events = []
        for name in ("first", "second"):
            folder = Path(scratch) / name
            run(given, given.seed, str(folder), quiet=True)
            events.append(events_of(folder))
    differing = [file for file in sorted(events[0].keys() | events[1].keys())
                 if events[0].get(file) != events[1].get(file)]
    if not differing:
        total = sum(len(lines) for lines in events[0].values())
        terminal.say(f"lockstep: twice: equal: {total} events on {len(events[0])} ranks")
        return EXIT_OK
    terminal.say(f"lockstep: twice: the runs differ in {', '.join(differing)}")
    return EXIT_FINDINGS


def events_of(folder: Path) -> dict[str, list[str]]:
    import json

    events = {}
    for path in sorted(folder.rglob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            row.pop("t", None)
        events[str(path.relative_to(folder))] = [json.dumps(row, sort_keys=True) for row in rows[1:]]
    return events
