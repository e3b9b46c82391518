"""A place of a rank that a script compares as a text: what cannot be meant is named, and nothing else."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lockstep.env_comparisons import compared

WRONG = {
    'if os.environ["LOCAL_RANK"] == 0: pass': ("LOCAL_RANK", 0),
    'if 0 == os.environ.get("RANK"): pass': ("RANK", 0),
    'if os.getenv("LOCAL_RANK", "-1") != -1: pass': ("LOCAL_RANK", -1),
    'main = environ["RANK"] == 0': ("RANK", 0),
    'rank = os.environ["RANK"]\ndef save():\n    if rank == 0: pass': ("RANK", 0),
    'def main():\n    rank = os.environ["RANK"]\n    return [rank == 0 for _ in range(3)]': ("RANK", 0),
    'class Logger:\n    def __init__(self):\n        size = os.environ["WORLD_SIZE"]\n        self.alone = size == 1': ("WORLD_SIZE", 1),
}
RIGHT = (
    'if int(os.environ["LOCAL_RANK"]) == 0: pass',
    'if os.environ["LOCAL_RANK"] == "0": pass',
    'if os.environ.get("LOCAL_RANK", 0) == 0: pass',  # Without a launcher it is the number.
    'if os.environ["LOCAL_RANK"] in (0, "0"): pass',
    'rank = os.environ["RANK"]\nrank = int(rank)\nif rank == 0: pass',
    'rank = os.environ["RANK"]\ndef main(rank):\n    return rank == 0',
    'rank = os.environ["RANK"]\ndef main():\n    rank = 0\n    return rank == 0',
    'rank = os.environ["RANK"]\ndef main():\n    global rank\n    rank = 0\n    return rank == 0',
    'rank = os.environ.get("RANK")\nif rank is None: rank = 0\nif rank == 0: pass',
    'if os.environ["VERBOSE"] == 1: pass',
    'if config["RANK"] == 0: pass',
    'def broken(:',
)


@pytest.mark.parametrize("source", WRONG)
def test_a_text_that_is_compared_with_a_number_is_named(source: str) -> None:
    [found] = compared(source)
    assert (found.variable, found.number) == WRONG[source]
    assert found.sentence("train.py").startswith(f"train.py:{found.line}: {found.variable} is a text")
    line = source.splitlines()[found.line - 1]
    assert "==" in line or "!=" in line


@pytest.mark.parametrize("source", RIGHT)
def test_what_may_be_meant_is_quiet(source: str) -> None:
    assert compared(source) == []


@pytest.mark.parametrize("folder", ["scripts", "virtual", "torch_jobs", "compared"])
def test_the_scripts_of_the_tests_are_quiet(folder: str) -> None:
    files = sorted((Path(__file__).parent / folder).glob("*.py"))
    assert files
    assert {file.name: found for file in files if (found := compared(file.read_text(encoding="utf-8")))} == {}


def test_a_recorded_script_is_read_and_one_that_is_right_is_not_spoken_of(tmp_path: Path) -> None:
    for word, shown in (('0', True), ('"0"', False)):
        script = tmp_path / "train.py"
        script.write_text(f'import os\nif os.environ.get("LOCAL_RANK") == {word}: print("saved")\n', encoding="utf-8")
        done = subprocess.run([sys.executable, "-m", "lockstep", "record", "-o", str(tmp_path / word.strip('"')), "--",
                               sys.executable, str(script)], env={**os.environ, "LOCAL_RANK": "0"}, capture_output=True,
                              text=True, check=False)
        assert (f"train.py:2: LOCAL_RANK is a text from the environment, which never equals the number {word};"
                in done.stderr) == shown, done.stderr
        assert ("saved" in done.stdout) != shown
