#!/usr/bin/env python3
"""Walks every help page: value names, defaults, examples that work, and docs/commands.md.

    help_test.py LOCKSTEP             checks the command
    help_test.py --self-test          shows each rule a page that breaks it
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "commands.md"
# What a parser calls a value when it was not given a name.
EMPTY_NAMES = {"TEXT", "INT", "UINT", "FLOAT", "NUMBER", "VALUE", "STRING", "ENUM", "BOOLEAN", "ARG", "OPTION"}
ROW = re.compile(r"^  (?P<names>(?:-\w, )?--[a-z-]+)(?: (?P<value>\S+))?(?:  +(?P<text>.*))?$")


def rows_of(page, heading):
    """The rows below a heading: name -> text, continued lines joined."""
    rows, current = {}, None
    inside = False
    for line in page.splitlines():
        if line == f"{heading}:":
            inside = True
        elif inside and not line.strip():
            break
        elif inside and line.startswith("   "):
            rows[current] += " " + line.strip()
        elif inside:
            current, _, text = line.strip().partition("  ")
            rows[current] = text.strip()
    return rows


def options_of(page):
    """Long name -> (value's name or '', text)."""
    options = {}
    for name, text in rows_of(page, "Options").items():
        words = name.split(", ")[-1].split(" ", 1)
        options[words[0]] = (words[1] if len(words) > 1 else "", text)
    return options


def examples_of(page):
    """The command lines under "Examples:"."""
    return re.findall(r"^  (lockstep .*)$", page.partition("\nExamples:\n")[2], re.MULTILINE)


def complaints_about(name, page):
    """What is wrong with one help page."""
    wrong = []
    for option, (value, text) in options_of(page).items():
        if value.upper() in EMPTY_NAMES:
            wrong.append(f"{name}: {option} has a value called {value}")
        if value and not re.search(r"\[default: .+\]$|\(required\)$", text):
            wrong.append(f"{name}: {option} {value} does not say what holds without it")
        if not text:
            wrong.append(f"{name}: {option} says nothing")
    for argument, text in rows_of(page, "Arguments").items():
        if not argument.isupper() or argument in EMPTY_NAMES or not text:
            wrong.append(f"{name}: argument {argument!r} has no name")
    if not examples_of(page):
        wrong.append(f"{name}: no example")
    wrong += [f"{name}: wider than 100 columns: {line}" for line in page.splitlines()
              if len(line) > 100 and not line.startswith("  lockstep")]
    return wrong


def sections_of(text):
    """Command -> its section of docs/commands.md."""
    parts = re.split(r"^## lockstep (\S+)\n", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2]))
    return {name: section.split("\n## ", 1)[0] for name, section in sections.items()}


def documented_differently(pages, text):
    """Where docs/commands.md and the help pages do not name the same commands and options."""
    wrong = []
    sections = sections_of(text)
    for name in sorted(set(pages) ^ set(sections)):
        where = "docs/commands.md" if name in sections else "--help"
        wrong.append(f"{name}: only in {where}")
    for name in sorted(set(pages) & set(sections)):
        real = set(options_of(pages[name])) - {"--help"}
        # Options are in code; of `lockstep ...` in code only those of this command.
        said = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", sections[name])) - {"--help"}
        said -= {option for other, option in re.findall(r"`(\w+) (--[a-z-]+)`", sections[name]) if other != name}
        wrong += [f"{name}: {option} is not in docs/commands.md" for option in sorted(real - said)]
        wrong += [f"{name}: docs/commands.md names {option}, which does not exist"
                  for option in sorted(said - real)]
        listed = re.findall(r"^lockstep (\S+)", section_code(sections[name]), re.MULTILINE)
        if name not in listed:
            wrong.append(f"{name}: docs/commands.md has no example")
    return wrong


def section_code(section):
    """The fenced blocks of a section."""
    return "\n".join(re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))


class Command:
    """The command, run in a folder in which its examples make sense."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        os.symlink(ROOT / "scenarios", folder / "scenarios")
        (folder / "program").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        (folder / "program").chmod(0o755)
        log = ROOT / "tests" / "harness" / "cli" / "input"
        (folder / "nccl.log").write_text((log / "nccl_rank0.log").read_text(encoding="utf-8"), encoding="utf-8")
        states = ROOT / "tests" / "fuzz" / "corpus" / "state"
        for name, source in (("checkpoint.pt", "checkpoint.pt"), ("model.safetensors", "two.safetensors")):
            (folder / name).write_bytes((states / source).read_bytes())
        for name, source in (("first", "chain"), ("second", "rotated"), ("rank0", "rank0"), ("rank1", "rank1")):
            (folder / f"{name}.npy").write_bytes((log / "sums" / f"{source}.npy").read_bytes())
        for name in ("trace", "before", "after"):
            self.run("run", "scenarios/zoo/bypass_wrapper.toml", "--quiet", "--trace", name)
        self.run("run", "scenarios/zoo/bypass_wrapper.toml", "--quiet", "--repro", "repro.toml")

    def run(self, *words):
        """Exit code, stdout and stderr."""
        done = subprocess.run([self.binary, *words], cwd=self.folder, capture_output=True, text=True,
                              timeout=280, check=False)
        return done.returncode, done.stdout, done.stderr

    def page(self, *words):
        code, out, err = self.run(*words)
        assert code == 0 and not err, (words, code, err)
        return out

    def example(self, line):
        """What is wrong when a user types the line: it must be understood, whatever laws say."""
        done = subprocess.run(["bash", "-c", line.replace("lockstep", '"$LOCKSTEP"', 1)], cwd=self.folder,
                              env={**os.environ, "LOCKSTEP": self.binary}, capture_output=True, text=True,
                              timeout=280, check=False)
        if done.returncode in (0, 1):
            return []
        if done.returncode == 3 and "gloo" in line:  # A build without Gloo.
            return []
        return [f"exit code {done.returncode} of: {line}\n    {done.stderr.strip()}"]


def check(command):
    """Everything that is wrong."""
    front = command.page("--help")
    wrong = []
    if command.page("help") != front:
        wrong.append("`lockstep help` is not `lockstep --help`")
    pages = {name: command.page(name, "--help") for name in rows_of(front, "Commands")}
    if len(pages) < 16:
        wrong.append(f"only {len(pages)} commands are listed")
    lines = []
    for name, page in pages.items():
        wrong += complaints_about(name, page)
        if command.page("help", name) != page:
            wrong.append(f"`lockstep help {name}` is not `lockstep {name} --help`")
        lines += examples_of(page)
    text = PAGE.read_text(encoding="utf-8")
    wrong += documented_differently(pages, text)
    for section in sections_of(text).values():
        lines += re.findall(r"^lockstep .*$", section_code(section), re.MULTILINE)
    for line in dict.fromkeys(lines):
        wrong += command.example(line)
    return wrong


GOOD = """Does things.

Usage: lockstep do FILE [OPTIONS]

Arguments:
  FILE  What to do

Options:
  -n, --times N   How often, which takes
                  two lines [default: 1]
  --out DIR       Where it goes (required)
  -h, --help      Prints this page

Examples:
  # Do it
  lockstep do it
"""


def self_test():
    """Each rule is shown a page that breaks it."""
    assert not complaints_about("do", GOOD), complaints_about("do", GOOD)
    broken = {
        "a value called": GOOD.replace("times N ", "times INT "),
        "what holds without": GOOD.replace(" [default: 1]", ""),
        "no example": GOOD.replace("  lockstep do it\n", ""),
        "has no name": GOOD.replace("  FILE  ", "  file  "),
        "wider": GOOD.replace("How often", "How often, " * 12),
    }
    for rule, page in broken.items():
        assert any(rule in one for one in complaints_about("do", page)), rule
    docs = "## lockstep do\n\n`--times N`, `--out DIR`\n\n```\nlockstep do it\n```\n"
    assert not documented_differently({"do": GOOD}, docs), documented_differently({"do": GOOD}, docs)
    assert documented_differently({"do": GOOD}, docs.replace("--times", "--count"))
    assert documented_differently({"do": GOOD}, docs.replace("lockstep do it", "true"))
    assert documented_differently({"do": GOOD, "undo": GOOD}, docs)
    assert documented_differently({}, docs)
    return []


def main():
    """Prints what is wrong."""
    if sys.argv[1] == "--self-test":
        wrong = self_test()
    else:
        with tempfile.TemporaryDirectory() as folder:
            wrong = check(Command(str(Path(sys.argv[1]).resolve()), Path(folder).resolve()))
    for complaint in wrong:
        print(complaint)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
