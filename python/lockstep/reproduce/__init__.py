"""From an incident to a test: a scenario, and ranks of PyTorch, that show what a trace shows."""
from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep import _core
from lockstep.native import command
from lockstep.report import check, report_of
from lockstep.reproduce import small_job
from lockstep.reproduce.calls import Calls
from lockstep.reproduce.facts import Facts, read
from lockstep.reproduce.quoting import escaped, quoted
from lockstep.reproduce.recipes import Recipe, recipe_for
from lockstep.terminal import plain, say, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.report import Finding, Report

TEST = '''\
"""Shows what a recorded job did wrong: {what}

Written by `lockstep reproduce`. Both tests pass as long as the finding is there.
"""
import json
import subprocess
import sys
from pathlib import Path

import lockstep
import pytest

HERE = Path(__file__).parent
WANTED = {wanted}


def is_wanted(finding):
    return all(finding[name] == value for name, value in WANTED.items())


def test_simulated_ranks_show_it(tmp_path):
    report = tmp_path / "report.json"
    subprocess.run([sys.executable, "-m", "lockstep", "run", HERE / "{name}.toml", "--quiet", "--report", report])
    findings = [finding for law in json.loads(report.read_text())["laws"] for finding in law["findings"]]
    assert any(map(is_wanted, findings)), [finding["sentence"] for finding in findings]


def test_ranks_of_pytorch_show_it(tmp_path):
    pytest.importorskip("torch.distributed")
    subprocess.run([sys.executable, "-m", "lockstep", "record", "-o", tmp_path / "trace"{stuck},
                    "--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                    "{ranks}", HERE / "{name}_ranks.py"])
    report = lockstep.check(tmp_path / "trace"{buffers})
    findings = [vars(finding) | {{"ranks": list(finding.ranks)}} for finding in report.findings]
    assert any(map(is_wanted, findings)), str(report)
'''

RANKS = '''\
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    {body}
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
'''


class CannotReproduce(Exception):
    """Why, in a sentence."""


@dataclass
class Reproduction:
    """What was written, and what it shows."""

    files: list[Path]
    finding: Finding  # Of the trace: the one that it was written for.
    shown: list[Finding]  # Of the trace: those that the scenario shows with the same law, step and ranks.
    elsewhere: list[Finding] = field(default_factory=list)  # Shown with their law and ranks, at another place.
    missing: list[str] = field(default_factory=list)  # Sentences.


OF_CALLS = ("progress", "collectives-match")
OF_EPOCHS = ("epoch-reshuffled", "samples-covered")


def is_same(recorded: Finding, simulated: Finding) -> bool:
    """The same law, ranks and place: a call's number in its group, an epoch, or else a step."""
    if not is_alike(recorded, simulated):
        return False
    if recorded.law in OF_CALLS and recorded.seq is not None:
        return (recorded.group, recorded.seq) == (simulated.group, simulated.seq)
    if recorded.law in OF_EPOCHS and recorded.epoch >= 0:
        return recorded.epoch == simulated.epoch
    return recorded.step in (None, simulated.step)


def is_alike(recorded: Finding, simulated: Finding) -> bool:
    """The same, at another place perhaps."""
    return (recorded.law, recorded.ranks) == (simulated.law, simulated.ranks)


def reproduce(paths: Sequence[Path], name: str, buffers: str = "") -> Reproduction:
    """Writes NAME.toml, NAME_ranks.py and test_NAME.py for the first finding that can be shown.

    Args:
        paths: one folder of a trace, or dumps of PyTorch's Flight Recorder.
        name: of the files, with their folder.

    Raises:
        CannotReproduce: nothing is broken, or no small job is known that would show it.
        ValueError: the trace or a dump is damaged.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = paths[0]
        of_dumps = not paths[0].is_dir()
        if of_dumps:
            folder = Path(scratch)
            _core.trace_of_dumps([str(path) for path in paths], str(folder))
        report = check(folder, buffers=buffers)
        facts = read(folder)
    if not report.findings:
        raise CannotReproduce("no law is broken there")
    base = Path(name)
    base.parent.mkdir(parents=True, exist_ok=True)
    best: Reproduction | None = None
    for finding in _most_telling_first(report):
        found = _try(finding, facts, report, base, buffers)
        if found is not None and finding in found.shown:
            return found
        if best is None or (found is not None and found.elsewhere and not best.elsewhere):
            best = found
    if best is None:
        _remove(base)
        raise CannotReproduce(
            f"no small job is known that shows this: {report.findings[0].sentence} The trace does not say "
            "what the program did between the events; a scenario can be written by hand "
            "(docs/scenario_format.md)")
    # The last one that was written is not the best one.
    return _try(best.finding, facts, report, base, buffers) or best


def _most_telling_first(report: Report) -> list[Finding]:
    """Findings with a cause come first; those about calls and ends come last, for they follow from others."""
    return sorted(report.findings, key=lambda finding: (finding.law in OF_CALLS, not finding.cause,
                                                        finding.step is None, finding.step or 0))


def _try(finding: Finding, facts: Facts, report: Report, base: Path, buffers: str) -> Reproduction | None:
    recipe = recipe_for(finding, facts)
    calls = None
    if recipe is None:
        if finding.law not in OF_CALLS:
            return None
        recipe, calls = Recipe(), Calls(facts, finding)
    scenario = base.with_name(base.name + ".toml")
    scenario.write_text(_scenario(finding, facts, recipe, calls), encoding="utf-8")
    simulated = _simulate(scenario)
    if simulated is None:
        return None
    ranks = base.with_name(base.name + "_ranks.py")
    ranks.write_text(_script(finding, facts, recipe, calls), encoding="utf-8")
    test = base.with_name(f"test_{base.name}.py")
    made = Reproduction([scenario, ranks, test], finding, [])
    for found in report.findings:
        if any(is_same(found, other) for other in simulated.findings):
            made.shown.append(found)
        elif any(is_alike(found, other) for other in simulated.findings):
            made.elsewhere.append(found)
    made.missing = _missing(report, simulated, made, recipe, calls)
    test.write_text(_test(made, facts, base.name, buffers or recipe.python.get("buffers", "")), encoding="utf-8")
    return made


def _missing(report: Report, simulated: Report, made: Reproduction, recipe: Recipe,
             calls: Calls | None) -> list[str]:
    sentences = []
    if calls is not None:
        sentences.append("only calls are shown: the trace says nothing of the computing between them, so there "
                         "are no steps")
        if calls.left_out:
            sentences.append(f"call {calls.left_out} of the group is call 0 here: earlier ones are left out")
    sentences += recipe.differs
    for law in dict.fromkeys(found.law for found in made.elsewhere):
        found = next(found for found in made.elsewhere if found.law == law)
        other = next(other for other in simulated.findings if is_alike(found, other))
        sentences.append(f"seen {_place(other)} there instead of {_place(found)}: {found.sentence}")
    left = [found for found in report.findings if found not in made.shown and found not in made.elsewhere]
    by_law = {found.law: found for found in reversed(left)}
    for found in by_law.values():
        n = sum(other.law == found.law for other in left)
        also = f" (and {n - 1} more of this law)" if n > 1 else ""
        sentences.append(f"not shown: {found.sentence}{also}")
    return sentences


def _place(finding: Finding) -> str:
    if finding.law in OF_CALLS and finding.seq is not None:
        return f"at call {finding.seq} of group {finding.group}"
    return f"in epoch {finding.epoch}" if finding.law in OF_EPOCHS else f"in step {finding.step}"


def _scenario(finding: Finding, facts: Facts, recipe: Recipe, calls: Calls | None) -> str:
    lines = ["# Written by `lockstep reproduce` from a trace"
             + (f" of {plain(facts.title)}" if facts.title else "") + ". It showed:",
             *(f"#   {plain(line)}" for line in finding.sentence.splitlines()),
             "format = 1", f"title = {quoted(f'Reproduced: {finding.law}' + (f', {finding.cause}' if finding.cause else ''))}"]
    if calls is not None:
        return "\n".join([*lines, f"world = {{ ranks = {facts.n} }}", *calls.toml(), ""])
    return "\n".join([*lines, *small_job.toml(facts, recipe), ""])


def _script(finding: Finding, facts: Facts, recipe: Recipe, calls: Calls | None) -> str:
    head = f'"""Ranks of PyTorch that show: {finding.law}. Written by `lockstep reproduce`."""\n'
    if calls is not None:
        return head + RANKS.format(body=calls.script())
    return head + small_job.script(facts, recipe)


def _test(made: Reproduction, facts: Facts, name: str, buffers: str) -> str:
    finding = made.finding
    wanted: dict[str, Any] = {"law": finding.law, "ranks": list(finding.ranks)}
    # Simulated ranks may show it at another place.
    if finding in made.shown and finding.step is not None and finding.law not in (*OF_CALLS, *OF_EPOCHS):
        wanted["step"] = finding.step
    return TEST.format(what=escaped(finding.sentence), wanted=repr(wanted), name=name, ranks=facts.n,
                       buffers=f', buffers="{buffers}"' if buffers else "",
                       stuck=', "--stuck-after", "60"' if finding.law in OF_CALLS else "")


def _simulate(scenario: Path) -> Report | None:
    """What the laws say about the scenario; None where it does not run."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        subprocess.run([command(), "run", str(scenario), "--quiet", "--report", str(report)],
                       capture_output=True, check=False)
        if not report.exists():
            return None
        return report_of(json.loads(report.read_text(encoding="utf-8")))


def _remove(base: Path) -> None:
    for path in (base.with_name(base.name + ".toml"), base.with_name(base.name + "_ranks.py"),
                 base.with_name(f"test_{base.name}.py")):
        path.unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    """`lockstep reproduce`. Returns: the exit code."""
    import argparse

    parser = argparse.ArgumentParser(
        "lockstep reproduce",
        description="Writes a scenario, a script of PyTorch ranks and a pytest file that show what a trace shows, "
                    "and says what they do not show. The exit code is 0 where a finding is shown, 1 where none is, "
                    "2 for bad input.")
    parser.add_argument("paths", nargs="+", metavar="TRACE|DUMP",
                        help="a trace folder, or the Flight Recorder dumps of one job")
    parser.add_argument("-o", "--output", default="reproduced", metavar="NAME",
                        help="writes NAME.toml, NAME_ranks.py and test_NAME.py (%(default)s)")
    parser.add_argument("--buffers", default="", choices=("", "broadcast0", "mean", "synced", "local"),
                        metavar="POLICY", help="what buffers were meant to be: broadcast0, mean, synced, local")
    given = parser.parse_args(arguments)
    paths = [Path(path) for path in given.paths]
    if len(paths) > 1 and any(path.is_dir() for path in paths):
        parser.error("takes one trace folder, or dumps")
    if not Path(given.output).name.isidentifier():
        parser.error(f"-o {given.output}: pytest takes names of letters, digits and _ only")
    try:
        made = reproduce(paths, given.output, given.buffers)
    except ValueError as error:
        warn(f"lockstep reproduce: {plain(str(error))}")
        return 2
    except CannotReproduce as error:
        warn(f"lockstep reproduce: {plain(str(error))}")
        return 1
    say("wrote " + ", ".join(map(str, made.files)))
    for finding in made.shown:
        say(f"shows: {plain(finding.sentence)}")
    for sentence in made.missing:
        say(f"but {plain(sentence)}")
    return 0 if made.shown or made.elsewhere else 1
