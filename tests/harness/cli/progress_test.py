#!/usr/bin/env python3
"""Progress of long work: on a terminal that is stderr, and nowhere else.

    progress_test.py LOCKSTEP
"""

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Long enough for a line to be shown, which takes 300 ms.
JOB = ROOT / "scenarios" / "jobs" / "digits.toml"
LONG = ["run", JOB, "--set", "loop={steps=6000}", "--set", 'policy.allow=["single-process-equal"]']
SHORT = ["run", ROOT / "scenarios" / "lessons" / "weights_2_and_200.toml"]


def on_a_terminal(binary, words, **environment):
    """stdout, and what a terminal that is stderr was sent."""
    ours, theirs = pty.openpty()
    seen = []

    def listen():
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # The other side is closed.
                return
            if not part:
                return
            seen.append(part)

    process = subprocess.Popen([str(word) for word in [binary, *words]], stdout=subprocess.PIPE, stderr=theirs,
                               env={**os.environ, **environment})
    os.close(theirs)
    listener = threading.Thread(target=listen)
    listener.start()
    out = process.communicate(timeout=280)[0].decode()
    listener.join()
    os.close(ours)
    return out, b"".join(seen).decode()


def elsewhere(binary, words):
    """stdout and stderr, when neither is a terminal."""
    done = subprocess.run([str(word) for word in [binary, *words]], capture_output=True, text=True, timeout=280,
                          check=False)
    return done.stdout, done.stderr


def left_on_screen(text):
    """What a terminal's last line shows: a carriage return starts it again."""
    line = ""
    for part in text.split("\r"):
        line = part + line[len(part):]
    return line.strip()


def main():
    """Prints what is wrong."""
    binary = Path(sys.argv[1]).resolve()
    wrong = []
    for color in ({}, {"NO_COLOR": "1"}):
        out, err = on_a_terminal(binary, LONG, **color)
        counts = [int(count) for count in re.findall(r"(\d+) of 6000 steps", err)]
        if not counts or counts != sorted(counts):
            wrong.append(f"a terminal sees no steps done, or not in order: {err!r}")
        if "\x1b" in err:
            wrong.append(f"escape sequences: {err!r}")
        if left_on_screen(err):
            wrong.append(f"left on the screen: {left_on_screen(err)!r}")
        quiet_out, quiet_err = elsewhere(binary, LONG)
        if quiet_err:
            wrong.append(f"stderr is not a terminal, and yet: {quiet_err!r}")
        if quiet_out != out:
            wrong.append("progress changes what is printed on stdout")
    for words in (SHORT, [*LONG, "--quiet"]):
        _, err = on_a_terminal(binary, words)
        if err:
            wrong.append(f"short or quiet work shows progress: {err!r}")
    assert left_on_screen("\r12\r  \r") == "" and left_on_screen("\r12\r ") == "2"
    for complaint in wrong:
        print(complaint)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
