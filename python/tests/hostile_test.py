"""Traces from strangers: `lockstep reproduce` writes files that are run, and their texts end up in these."""
from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from lockstep.reproduce import main, small_job
from lockstep.reproduce.facts import Facts, RankFacts
from lockstep.reproduce.quoting import escaped, quoted
from lockstep.reproduce.recipes import Recipe
from lockstep.terminal import plain

LOCKSTEP = Path(os.environ["LOCKSTEP_BUILD"]) / "bin" / "lockstep"
# As JSON has them: quotes that end a string or a docstring, lines that end a comment, what a terminal obeys.
ENDS = r'\"\"\"\nraise SystemExit(7)\nformat = 2\n\"\"\"\u001b]0;x\u0007\u2028\"]'
NUDGED = """format = 1
title = "nudged"
world = { ranks = 2 }
model = { kind = "mlp", widths = [4, 8, 1], init = { kind = "pytorch", seed = 3 } }
data = { kind = "synthetic", task = "regression", size = 32, features = 4, outputs = 1 }
loader = { batch = 4 }
loss = { kind = "mse" }
optimizer = { kind = "sgd", lr = 0.1 }
loop = { steps = 3 }
bug = [ { kind = "write-tensor", ranks = [1], tensor = "2.weight", at = { step = 1, event = "step", when = "after" } } ]
"""


def recorded(scenario: Path, folder: Path, text: str, instead: str) -> Path:
    """A trace that has another text at all places of one."""
    subprocess.run([LOCKSTEP, "run", scenario, "--quiet", "--trace", folder], check=False)
    files = sorted(folder.glob("*.jsonl"))
    assert files
    for file in files:
        written = file.read_text(encoding="utf-8")
        assert text in written
        file.write_text(written.replace(text, instead), encoding="utf-8")
    return folder


def assert_harmless(base: Path) -> None:
    for name in (f"{base.name}_ranks.py", f"test_{base.name}.py"):
        tree = ast.parse((base.parent / name).read_text(encoding="utf-8"))
        raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
        assert not raised, name
    assert tomllib.loads(base.with_suffix(".toml").read_text(encoding="utf-8"))["format"] == 1


def test_a_name_of_a_tensor_is_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job.toml"
    job.write_text(NUDGED, encoding="utf-8")
    trace = recorded(job, tmp_path / "trace", '"2.weight"', f'"2.weight{ENDS}"')
    assert main([str(trace), "-o", str(tmp_path / "again")]) == 0
    assert_harmless(tmp_path / "again")
    said = capsys.readouterr()
    assert "\\u001b]0;x\\u0007" in said.out
    assert all(line.isprintable() for line in (said.out + said.err).split("\n"))


def test_a_title_is_no_key(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(NUDGED, encoding="utf-8")
    trace = recorded(job, tmp_path / "trace", f'"scenario":"{job}"', f'"scenario":"{ENDS}"')
    assert main([str(trace), "-o", str(tmp_path / "again")]) == 0
    assert_harmless(tmp_path / "again")


def test_a_declared_mean_is_no_code() -> None:
    text = 'a")\nraise SystemExit(7)\n("'
    script = small_job.script(Facts("", [RankFacts(0)]), Recipe(python={"declared": text}))
    words = [node.value for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Constant)]
    assert text in words


@pytest.mark.parametrize("text", ["plain", 'a"b', "a\\", "\\\"", "\x00\x1b\x7f\x9b", "\n\r\t\u2028\u2029", "\u202e\U000e0001", "é∑"])
def test_quoted_texts_are_read_back_by_python_and_toml(text: str) -> None:
    assert ast.literal_eval(quoted(text)) == text
    assert tomllib.loads(f"x = {quoted(text)}") == {"x": text}
    assert ast.literal_eval(f'"""{escaped(text)}"""') == text
    assert plain(text).isprintable()


def test_files_of_reproduced_traces_are_what_they_were(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(NUDGED, encoding="utf-8")
    trace = recorded(job, tmp_path / "trace", '"2.weight"', '"2.weight"')
    assert main([str(trace), "-o", str(tmp_path / "again")]) == 0
    test = (tmp_path / "test_again.py").read_text(encoding="utf-8")
    assert '`2.weight` on rank 1: differs from the other replicas' in test
    subprocess.run([sys.executable, "-m", "py_compile", tmp_path / "test_again.py", tmp_path / "again_ranks.py"],
                   check=True)
