#!/usr/bin/env python3
"""A page is true: its files are written, its commands run, and what they print is what the page shows.

    pages.py PAGE... --prefix PREFIX [--python FOLDER] [--torch FOLDER]   checks each page
    pages.py PAGE... --prefix PREFIX ... --update                         rewrites what commands print
    pages.py --self-test                                                  shows each rule a lie

A page says above a block what it is, in a comment that readers do not see:

    <!-- file: NAME -->      the block is that file
    <!-- console -->         the block holds commands (`$ COMMAND`), each with what it prints
    <!-- console: exits 1 -->            the last of them exits with that code
    <!-- silently: COMMAND -->           runs here, where showing it would only be noise
    <!-- needs: torch -->                anywhere: the page is skipped where PyTorch's folder is missing

All of a page happens in one folder, in order, in which each file is at first as the page first shows it. PREFIX is
where Lockstep was installed: its command is the one that runs, and programs are built against it. FOLDER of --python
holds the Python package, that of --torch a virtual environment with PyTorch.
"""
from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SKIPPED = 77
INSTALLED = "/usr/local"  # Where pages say that Lockstep is.
PART = re.compile(
    r"<!-- (?P<kind>file|console|silently)(?:: (?P<what>[^\n]*?))? -->\n(?:```\w*\n(?P<body>.*?)```\n)?", re.DOTALL)
MASKS = (
    (re.compile(r"trace digest [0-9a-f]{16}"), "trace digest (16 digits)"),  # Covers lines of the library.
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s)\b( \(\d+:\d\d:\d\d\))?"), "(time)"),  # pytest: "75.10s (0:01:15)".
)


@dataclass
class Part:
    """A marked block of a page."""

    kind: str
    what: str
    body: str
    start: int  # Of the body, in the page.

    def replaced_in(self, text: str, now: str) -> str:
        """The page with another body. Parts before this one stay where they are."""
        return text[:self.start] + now + text[self.start + len(self.body):]


def parts_of(text: str) -> list[Part]:
    """All marked blocks, in order."""
    return [Part(found["kind"], found["what"] or "", found["body"] or "", found.start("body"))
            for found in PART.finditer(text)]


def masked(text: str) -> str:
    """Without what differs from run to run."""
    for pattern, instead in MASKS:
        text = pattern.sub(instead, text)
    return text


def commands_of(body: str) -> list[str]:
    """The commands of a console, without what they print."""
    return [line[2:] for line in body.splitlines() if line.startswith("$ ")]


def run(command: str, folder: Path, environment: dict[str, str], expected: int) -> str:
    """What a command prints, errors included. Stops if it exits with another code."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True, timeout=600, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != expected:
        raise SystemExit(f"{command}: exit code {done.returncode}, not {expected}\n{done.stdout}")
    return done.stdout


def console(part: Part, folder: Path, environment: dict[str, str]) -> str:
    """The body as it is when its commands have run."""
    commands = commands_of(part.body)
    code = int(part.what.removeprefix("exits ") or 0)
    printed = [f"$ {command}\n" + run(command, folder, environment, code if i == len(commands) - 1 else 0)
               for i, command in enumerate(commands)]
    return "\n".join(one.rstrip("\n") for one in printed) + "\n"


def play(text: str, environment: dict[str, str], prefix: Path | None = None) -> tuple[str, list[str]]:
    """Runs a page. Returns: the page as it should be, and what was wrong with it. Paths of the folder and of `prefix`
    are printed as a reader has them."""
    changed = []
    parts = parts_of(text)
    files = [part for part in parts if part.kind == "file"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for part in reversed(files):
            (folder / part.what).write_text(part.body, encoding="utf-8")
        for part in parts:
            if part.kind == "file":
                (folder / part.what).write_text(part.body, encoding="utf-8")
            elif part.kind == "silently":
                run(part.what, folder, environment, 0)
            else:
                now = console(part, folder, environment).replace(str(folder), ".")
                if prefix:
                    now = now.replace(str(prefix), INSTALLED)
                if masked(now) != masked(part.body):
                    changed.append((part, now))
    corrected = text
    for part, now in reversed(changed):
        corrected = part.replaced_in(corrected, now)
    return corrected, [now for _, now in changed]


def environment_of(arguments: argparse.Namespace, scratch: Path) -> dict[str, str]:
    """Where commands find Lockstep and PyTorch. With the Python package, `lockstep` is its command."""
    paths = [arguments.prefix.resolve() / "bin"]
    environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1",
                   "CMAKE_GENERATOR": arguments.generator,
                   "CMAKE_PREFIX_PATH": ":".join([str(arguments.prefix.resolve()),
                                                  arguments.prefix_path.replace(";", ":")])}
    if shutil.which("ccache"):  # The same programs are built again and again, in a folder of another name each time.
        environment |= {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_BASEDIR": str(scratch.resolve()), "CCACHE_NOHASHDIR": "1"}
    if arguments.torch:
        paths.insert(0, arguments.torch.resolve() / "bin")
    if arguments.python:
        environment["PYTHONPATH"] = str(arguments.python.resolve())
        command = scratch / "lockstep"
        command.write_text('#!/bin/sh\nexec python -m lockstep "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        paths.insert(0, scratch)
    environment["PATH"] = ":".join([*map(str, paths), environment["PATH"]])
    # Pages show what a reader's terminal does: where these are set, pytest prints long lines whole.
    for name in ("CI", "BUILD_NUMBER"):
        environment.pop(name, None)
    environment["COLUMNS"] = "80"
    return environment


def self_test() -> int:
    """Each rule is shown a page that breaks it."""
    page = "a\n<!-- file: x.txt -->\n```\nold\n```\n<!-- console -->\n```\n$ cat x.txt\nold\n$ echo 1\n1\n```\n"
    assert [part.kind for part in parts_of(page)] == ["file", "console"]
    assert play(page, dict(os.environ))[1] == []
    lie = page.replace("$ cat x.txt\nold", "$ cat x.txt\nnew")
    corrected, wrong = play(lie, dict(os.environ))
    assert len(wrong) == 1 and corrected == page
    first_and_last = "<!-- console -->\n```\n$ cat x\n{}\n```\n<!-- file: x -->\n```\n1\n```\n"
    again = first_and_last + "<!-- file: x -->\n```\n2\n```\n<!-- console -->\n```\n$ cat x\n{}\n```\n"
    assert play(again.format(1, 2), dict(os.environ))[1] == []
    for lie in (again.format(2, 2), again.format(1, 1), again.format(3, 3)):
        assert play(lie, dict(os.environ))[0] == again.format(1, 2)
    fails = "<!-- console{} -->\n```\n$ true\n$ exit 3\n```\n"
    assert play(fails.format(": exits 3"), dict(os.environ))[1] == []
    for code in ("", ": exits 1"):
        try:
            play(fails.format(code), dict(os.environ))
        except SystemExit:
            continue
        raise AssertionError("an exit code was not compared")
    quiet = "<!-- silently: echo 5 > n -->\n<!-- console -->\n```\n$ cat n\n5\n```\n"
    assert play(quiet, dict(os.environ))[1] == []
    there = "<!-- console -->\n```\n$ echo /opt/'x'/bin\n/usr/local/bin\n```\n"
    assert play(there, dict(os.environ), Path("/opt/x"))[1] == [] and play(there, dict(os.environ))[1] != []
    assert masked("1 passed in 75.10s (0:01:15)") == masked("1 passed in 8.88s")
    assert masked("took 12.5 ms, trace digest 0123456789abcdef") == "took (time), trace digest (16 digits)"
    return 0


def main() -> int:
    """Checks, or rewrites."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--prefix", type=Path, default=Path("/usr/local"))
    parser.add_argument("--prefix-path", default="")
    parser.add_argument("--python", type=Path)
    parser.add_argument("--torch", type=Path)
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    code = 0
    for page in arguments.pages:
        text = page.read_text(encoding="utf-8")
        if "<!-- needs: torch -->" in text and not (arguments.torch and (arguments.torch / "bin").is_dir()):
            print(f"{page}: not run: there is no PyTorch at {arguments.torch}")
            code = code or SKIPPED
            continue
        with tempfile.TemporaryDirectory() as scratch:
            corrected, wrong = play(text, environment_of(arguments, Path(scratch)),
                                    arguments.prefix.resolve())
        if arguments.update:
            page.write_text(corrected, encoding="utf-8")
        elif wrong:
            code = 1
            print(f"{page}: what its commands print is now (--update rewrites it):")
            print("\n".join(wrong))
    return code


if __name__ == "__main__":
    sys.exit(main())
