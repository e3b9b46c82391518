#!/usr/bin/env python3
"""Builds the API reference: what include/lockstep has, and the classes that its headers show, with their contracts.

    reference.py OUT [--doxygen PROGRAM]   writes OUT/html/index.html; exit code 1 if a contract is missing
    reference.py --self-test               shows each rule a warning

A header of include/lockstep explains every name. In the headers that those include, every class, enum and function is
explained; a data member, an equality or a question without arguments may be left to its name and type, a constructor to its
class, an override to what it overrides. Exit code 77, with a sentence, where there is no Doxygen.
"""
from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOOR = ROOT / "include" / "lockstep"
SKIPPED = 77
INCLUDE = re.compile(r'#include "lockstep/([^"]+)"')
ENUM_NAMES = ROOT / "src" / "base" / "enum_names.h"  # What every table of enumerators' names specialises.
SETTINGS = """
PROJECT_NAME = Lockstep
PROJECT_BRIEF = "Data-parallel training as virtual ranks, and the laws that it keeps"
INPUT = {inputs}
USE_MDFILE_AS_MAINPAGE = {main_page}
OUTPUT_DIRECTORY = {out}
STRIP_FROM_PATH = {root}
JAVADOC_AUTOBRIEF = YES
EXCLUDE_SYMBOLS = detail *::detail *::detail::*
FILTER_PATTERNS = *.h="sed -E 's@///<(.*)$@/**<\\1 */@'" *.md="sed -E 's@\\[([^]]+)\\]\\([^)]*\\)@\\1@g'"
TOC_INCLUDE_HEADINGS = 0
GENERATE_LATEX = NO
HAVE_DOT = NO
CLASS_GRAPH = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = YES
WARN_LOGFILE = {log}
"""
WARNING = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): (?:warning|error): (?P<text>.*)$")
FUNCTION = re.compile(r"^Member (?P<name>~?[\w ]+|operator.*?)\((?P<arguments>.*)\)(?P<after>[^()]*) \(function\) of ")


def shown_headers() -> list[Path]:
    """The headers of include/lockstep, and those that they include."""
    door = sorted(DOOR.glob("*.h"))
    shown = {ENUM_NAMES}
    for header in door:
        for path in INCLUDE.findall(header.read_text(encoding="utf-8")):
            shown |= {place for place in (ROOT / "src" / path, ROOT / path) if place.is_file()}
    return door + sorted(shown)


def may_stay(file: str, text: str) -> bool:
    """Whether a warning of Doxygen's names what needs no words."""
    if file.startswith("include/") or not text.endswith("is not documented.") or not text.startswith("Member "):
        return False
    if "(variable)" in text or "operator==(" in text:
        return True
    function = FUNCTION.match(text)
    if not function:
        return False
    name = function["name"].strip()
    asks = not function["arguments"] and "const" in function["after"] and "=0" not in function["after"]
    makes = name[0].isupper() or name.startswith(("~", "operator"))
    return asks or makes or "override" in function["after"]


def complaints(log: str) -> list[str]:
    """What a log of Doxygen's complains of, each once."""
    wrong = []
    for line in log.splitlines():
        found = WARNING.match(line)
        file = found["file"].removeprefix(f"{ROOT}/") if found else ""
        if not (found and may_stay(file, found["text"])) and line.strip():
            wrong.append(f"{file}:{found['line']}: {found['text']}" if found else line)
    return sorted(set(wrong))


def build(out: Path, doxygen: str) -> list[str]:
    """Writes the reference. Returns: complaints."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        page = ROOT / "docs" / "api.md"
        settings = SETTINGS.format(inputs=" ".join(map(str, [page, *shown_headers()])), main_page=page, out=out,
                                   root=ROOT, log=log)
        subprocess.run([doxygen, "-"], input=settings, text=True, check=True, cwd=ROOT)
        return complaints(log.read_text(encoding="utf-8"))


def self_test() -> int:
    """Each rule is shown what it lets pass and what it does not."""
    for text in ("Member size (variable) of struct lockstep::A is not documented.",
                 "Member size() const (function) of class lockstep::A is not documented.",
                 "Member A(int size) (function) of class lockstep::A is not documented.",
                 "Member run(B &b) override (function) of class lockstep::A is not documented."):
        assert may_stay("src/a/a.h", text), text
        assert not may_stay("include/lockstep/a.h", text)
    for text in ("Compound lockstep::A is not documented.", "Member run(B &b) (function) of class A is not documented.",
                 "Member size() const =0 (function) of class lockstep::A is not documented.",
                 "Member Kind (enumeration) of class lockstep::A is not documented.",
                 "Member step() (function) of class lockstep::A is not documented.",
                 "documented symbol 'a' was not declared or defined."):
        assert not may_stay("src/a/a.h", text), text
    line = f"{ROOT}/src/a.h:3: warning: Compound A is not documented."
    assert complaints(line + "\n" + line) == ["src/a.h:3: Compound A is not documented."]
    assert complaints("Segmentation fault") == ["Segmentation fault"]
    assert {"run.h", "ddp.h", "enum_names.h"} <= {header.name for header in shown_headers()}
    return 0


def main() -> int:
    """Builds, and complains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--doxygen", default="doxygen")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    doxygen = shutil.which(arguments.doxygen)
    if doxygen is None:
        print("not run: there is no Doxygen (./dev docs installs it)")
        return SKIPPED
    wrong = build(arguments.out.resolve(), doxygen)
    for complaint in wrong:
        print(complaint)
    print(f"{arguments.out}/html/index.html: {len(wrong)} contracts missing" if wrong else f"{arguments.out}/html/index.html")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
