#!/usr/bin/env python3
"""docs/certify.md is true: it shows what the command prints, and its C++ is that of a file that is built.

    certify_docs_test.py LOCKSTEP             compares
    certify_docs_test.py LOCKSTEP --update    rewrites the outputs

A block below `<!-- certify: CODE -->` begins with the command, whose exit code is CODE; one below
`<!-- certify: FILE -->` is a part of FILE.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "certify.md"
BLOCK = re.compile(r"<!-- certify: (\S+) -->\n```\w*\n(.*?)```\n", re.DOTALL)


def output(lockstep, command, code):
    """The command and what it prints."""
    words = command.split()
    done = subprocess.run([lockstep, *words[2:]], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "NO_COLOR": "1"}, timeout=60, check=False)
    if done.returncode != code or done.stderr:
        raise SystemExit(f"{command}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return f"{command}\n{done.stdout}"


def main():
    lockstep = sys.argv[1]
    text = PAGE.read_text(encoding="utf-8")
    wrong = []
    n_outputs = 0

    def checked(match):
        nonlocal n_outputs
        what, old = match.group(1), match.group(2)
        if not what.isdigit():
            if old not in (ROOT / what).read_text(encoding="utf-8"):
                wrong.append(f"this is not in {what}:\n{old}")
            return match.group(0)
        n_outputs += 1
        new = output(lockstep, old.split("\n", 1)[0], int(what))
        if new != old:
            wrong.append(f"shown:\n{old}\nprinted:\n{new}")
        return match.group(0).replace(old, new)

    updated = BLOCK.sub(checked, text)
    if n_outputs < 4:
        raise SystemExit(f"docs/certify.md: {n_outputs} outputs; the marks above the blocks are gone")
    if "--update" in sys.argv:
        PAGE.write_text(updated, encoding="utf-8")
    elif wrong:
        raise SystemExit("docs/certify.md is not true:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
