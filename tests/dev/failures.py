#!/usr/bin/env python3
"""Prints what the tests that failed in CTest's last run said last: `failures.py BUILD_FOLDER [LINES]`.

A run of thousands of tests ends with their names alone; why they failed is far above, or in a file.
"""
import pathlib
import re
import sys

LINES = 60


def outputs(log):
    """Each test's name and the lines it said."""
    for part in re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]:
        said = re.search(r"^Output:\n-+\n(.*?)^<end of output>", part, re.MULTILINE | re.DOTALL)
        yield part.partition("\n")[0], said.group(1).splitlines() if said else []


def main():
    folder = pathlib.Path(sys.argv[1], "Testing", "Temporary")
    most = int(sys.argv[2]) if len(sys.argv) > 2 else LINES
    failed, log = folder / "LastTestsFailed.log", folder / "LastTest.log"
    if not failed.exists() or not log.exists():
        return
    names = {line.partition(":")[2] for line in failed.read_text().splitlines()}
    for name, lines in outputs(log.read_text(errors="replace")):
        if name in names:
            print(f"== {name} said last:", *lines[-most:], sep="\n")


if __name__ == "__main__":
    main()
