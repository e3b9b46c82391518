#!/usr/bin/env python3
"""Keeps docs/zoo.md true: its table is what the scenario files say, and every bug has its two twins.

`LOCKSTEP_UPDATE_GOLDEN=1` rewrites the table. That the files tell the truth is what `lockstep zoo` tests.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "zoo.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
HEAD = ("| bug | what happens | what fires | likely cause | reported in | DETAIL |\n"
        "|---|---|---|---|---|---|\n")


def merged(base, changes):
    """A variant: tables merge, everything else replaces."""
    result = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def variants_of(document):
    """Name -> expectation, the base's own under ''."""
    base = document.get("expect", {})
    changes = document.get("variant", {})
    return {"": base} | {name: merged(base, variant.get("expect", {})) for name, variant in changes.items()}


def kind_of(name, expect):
    if expect.get("outcome", "ok") != "ok" or expect.get("fires") or expect.get("advice"):
        return "buggy"
    return "fixed" if name.startswith(("fixed", "control")) else "look-alike"


class Bug:
    is_first = True  # Of the rows with its id: links lead to it.

    def __init__(self, path):
        self.document = tomllib.loads(path.read_text())
        origins = self.document.get("origin", [])
        zoo = [origin[4:] for origin in origins if origin.startswith("zoo:")]
        self.id = zoo[0] if zoo else path.stem.replace("_", "-")
        self.link = f"../{path.relative_to(ROOT)}"
        self.issues = [origin for origin in origins if "#" in origin]
        self.expect = self.document.get("expect", {})
        self.kinds = {kind_of(name, expect) for name, expect in variants_of(self.document).items()}

    def fires(self):
        parts = [self.expect["outcome"]] if self.expect.get("outcome") in ("hang", "error") else []
        parts += [found["law"] for found in self.expect.get("fires", [])]
        parts += self.expect.get("advice", [])
        return ", ".join(dict.fromkeys(parts)) or "nothing: it is healthy"

    def causes(self):
        causes = [found["cause"] for found in self.expect.get("fires", []) if "cause" in found]
        return ", ".join(dict.fromkeys(causes))

    def row(self):
        title = self.document["title"].removeprefix("Kill matrix: ").replace("|", "\\|")
        links = [f"[{issue.split('/')[1]}](https://github.com/{issue.replace('#', '/issues/')})"
                 for issue in self.issues]
        anchor = f'<a id="{self.id}"></a>' if self.is_first else ""
        cells = [f"{anchor}[`{self.id}`]({self.link})", title, self.fires(), self.causes(), ", ".join(links),
                 self.document.get("torch_detail", "")]
        return "| " + " | ".join(cells) + " |\n"


def read_bugs():
    paths = [*(ROOT / "scenarios/zoo").glob("*.toml"), *(ROOT / "scenarios/kill_matrix").glob("*.toml")]
    bugs = sorted((Bug(path) for path in paths), key=lambda bug: (bug.id, bug.link))
    for before, bug in zip(bugs, bugs[1:]):
        bug.is_first = before.id != bug.id
    return bugs


def listed(page, heading):
    """The ids that the bullets or rows below a heading begin with."""
    section = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `([a-z0-9-]+)`", section, re.MULTILINE))


def check_twins(page, bugs):
    kinds = {}
    for bug in bugs:
        kinds.setdefault(bug.id, set()).update(bug.kinds)
    healthy = listed(page, "Not bugs")
    assert healthy == {name for name, found in kinds.items() if "buggy" not in found}
    for name, found in kinds.items():
        wanted = {"fixed", "look-alike"} if name in healthy else {"buggy", "fixed", "look-alike"}
        assert found >= wanted, f"{name} lacks {wanted - found}"
    absent = listed(page, "What is not here")
    assert absent and not absent & kinds.keys(), absent & kinds.keys()


def main():
    bugs = read_bugs()
    page = PAGE.read_text()
    check_twins(page, bugs)
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    wanted = HEAD + "".join(bug.row() for bug in bugs)
    if os.environ.get("LOCKSTEP_UPDATE_GOLDEN"):
        PAGE.write_text(before + BEGIN + wanted + END + after)
    elif table != wanted:
        lines = zip(table.splitlines(), wanted.splitlines())
        first = next((f"{old}\n{new}" for old, new in lines if old != new), "another number of rows")
        sys.exit(f"docs/zoo.md differs from the scenarios (LOCKSTEP_UPDATE_GOLDEN=1 rewrites it):\n{first}")


main()
