#!/usr/bin/env python3
"""The answer comes first: the first screen of `lockstep run` on every scenario that fails.

A screen is 24 lines of 100 columns. It must hold the verdict, every likely cause with its sentence, its
remedy and where to read more, a place of each (law, step, tensor, ranks, call sites), and the line that
replays the run. What they are is taken from the report as JSON, which is written by other code.
Scenarios are named from the project's root, as docs/ does: where the checkout lies changes no line.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("faults", "kill_matrix", "lessons", "zoo")
LINES = 24
COLUMNS = 100


def first_screen(text):
    """What a terminal shows of it, wrapped lines put together again."""
    left, shown = LINES, []
    for line in text.splitlines():
        n_lines = max(1, -(-len(line) // COLUMNS))
        shown.append(line[:COLUMNS * left])
        left -= n_lines
        if left <= 0:
            break
    return "\n".join(shown)


def verdict_of(report):
    """How the first line ends."""
    n_broken = sum(law["verdict"] == "broken" for law in report["laws"])
    if report["outcome"] == "error":
        return f"error: {report['error'].splitlines()[0][:500]}"
    if n_broken == 0:
        return report["outcome"]
    return f"{report['outcome']}: {n_broken} law{'' if n_broken == 1 else 's'} broken"


def says_place(line, finding):
    """Whether a line names where the law was broken."""
    ranks = finding["ranks"]
    parts = [f"(law {finding['law'].upper()})", f"`{finding['tensor']}`" if finding["tensor"] else "",
             "" if finding["step"] is None else f"step {finding['step']},",
             f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]}" if ranks else "",
             finding["site"], finding["other_site"]]
    return all(part in line for part in parts)


def complaints_about(text, report):
    """What the first screen of `text` lacks; nothing: it holds all."""
    screen = first_screen(text)
    lines = screen.splitlines()
    findings = [finding for law in report["laws"] for finding in law["findings"]]
    missing = []
    if not lines or verdict_of(report) not in lines[0]:
        missing.append(f"the verdict {verdict_of(report)!r} in the first line")
    if f"Replay: {report['replay']}" not in lines or not report["replay"]:
        missing.append("the replay line")
    known = {finding["cause"]: finding for finding in findings if finding["cause"]}
    for cause, finding in known.items():
        if f"Likely cause: {cause}. {finding['cause_text']}" not in lines:
            missing.append(f"the cause {cause} with its sentence")
        if f"  Remedy: {finding['remedy']}" not in lines or not finding["remedy"]:
            missing.append(f"the remedy of {cause}")
        if f"  Read more: {finding['page']}" not in lines or not finding["page"]:
            missing.append(f"the page about {cause}")
    if findings and not known and "Likely cause: not known. Law " not in screen:
        missing.append("a word that the cause is not known")
    for cause in known or {"": None}:
        places = [finding for finding in findings if finding["cause"] == cause]
        if places and not any(says_place(line, finding) for line in lines for finding in places):
            missing.append(f"a place of {cause or 'the broken law'}")
    return missing


def variants_of(path):
    """The file as it stands, and its variants."""
    with path.open("rb") as file:
        return ["", *tomllib.load(file).get("variant", {})]


def failing_runs(binary, folder):
    """Text and JSON of each run of a scenario that does not end well."""
    target = folder / "report.json"
    for path in sorted(path for name in FOLDERS for path in (ROOT / "scenarios" / name).glob("*.toml")):
        for variant in variants_of(path):
            words = [binary, "run", str(path.relative_to(ROOT)), "--report", str(target)]
            words += ["--variant", variant] if variant else []
            done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=120,
                                  check=False)
            if done.returncode == 1:
                yield f"{path.relative_to(ROOT)} {variant}".strip(), done.stdout, json.loads(
                    target.read_text(encoding="utf-8"))


def check_the_check(text, report):
    """A report that lacks something is noticed. Returns what went unnoticed."""
    lines = text.splitlines(keepends=True)

    def without(start):
        return "".join(line for line in lines if not line.startswith(start))

    twins = {"no replay line": without("Replay: "), "no cause": without("Likely cause: "),
             "no remedy": without("  Remedy: "), "no page": without("  Read more: "),
             "no place": without("  step "), "no verdict": "".join(lines[1:]),
             "the answer last": "a line of a log\n" * LINES + text}
    return [f"unnoticed: {name}" for name, twin in twins.items() if not complaints_about(twin, report)]


def main():
    """Runs every scenario with the command named on the command line."""
    binary = str(Path(sys.argv[1]).resolve())
    wrong, folders = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text, report in failing_runs(binary, Path(folder)):
            wrong += [f"{name}: {what}" for what in complaints_about(text, report)]
            folders[name.split("/")[1]] = folders.get(name.split("/")[1], 0) + 1
            if name == "scenarios/zoo/order_swap.toml":
                wrong += check_the_check(text, report)
    if folders.get("zoo", 0) < 80 or folders.get("kill_matrix", 0) < 10:
        wrong.append(f"too few scenarios fail to show anything: {folders}")
    print("\n".join(wrong) or f"{sum(folders.values())} failing runs begin with their answer")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
