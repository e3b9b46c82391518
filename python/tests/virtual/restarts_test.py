"""A restart that does not go on where its snapshot says that training was: seen in what is recorded of both attempts."""
from __future__ import annotations

from pathlib import Path

import lockstep
import pytest
from virtual_job import run_virtual

LOOKED_FOR = ("os.path.exists(path)", 'os.path.exists(path.removesuffix(".pt"))')
RANGE = ("range(epochs_run, EPOCHS)", "range(EPOCHS)")
EPOCH = ('"EPOCHS_RUN": epoch + 1', '"EPOCHS_RUN": epoch')
SET_EPOCH = ("        sampler.set_epoch(epoch)\n", "")
ADVICE = "A-steps-again"
# What is changed in the healthy script, and the advice on it.
MISTAKES = {
    "saved as snapshot.pt, looked for as snapshot": (LOOKED_FOR, "does not read {}/snapshot.pt, which contains 12 steps, and starts 1 epoch before it"),
    "the loop begins at epoch 0 again": (RANGE, "reads {}/snapshot.pt, which contains 12 steps, and starts 1 epoch before it"),
}


def script_with(folder: Path, *changes: tuple[str, str]) -> Path:
    text = (Path(__file__).parent / "restarted_job.py").read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    (folder / "snapshots").mkdir()
    return script


def steps_again(trace: Path) -> list[str]:
    return [text for law in lockstep.check(trace).laws for text in law.advice if text.startswith(ADVICE)]


def advice_on(folder: Path, *changes: tuple[str, str]) -> list[str]:
    script = script_with(folder, *changes)
    outcome = run_virtual(script, 2, "--max-restarts", "1", trace=folder / "trace", arguments=(str(folder / "snapshots"),))
    assert outcome.attempts == 2 and outcome.found["outcome"] == "ok", outcome.found
    assert len(list((folder / "trace").glob("a001.*.jsonl"))) == 2
    return steps_again(folder / "trace")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_steps_that_a_restart_takes_again_are_named(mistake: str, tmp_path: Path) -> None:
    change, text = MISTAKES[mistake]
    [found] = advice_on(tmp_path, change)
    assert text.format(tmp_path / "snapshots") in found


def test_a_file_that_is_not_looked_for_is_seen_without_epochs_too(tmp_path: Path) -> None:
    [found] = advice_on(tmp_path, LOOKED_FOR, SET_EPOCH)
    assert "does not read" in found


@pytest.mark.parametrize("changes", [(), (EPOCH,), (SET_EPOCH,)], ids=["whole", "last epoch again", "no epochs"])
def test_a_restart_that_goes_on_is_quiet(changes: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    assert advice_on(tmp_path, *changes) == []
