"""A file that one rank reads while another writes it, where the race does harm: made certain here by waiting."""
from __future__ import annotations

from pathlib import Path

import lockstep
import pytest
from forked import run_job
from reported import FOLDER, ROWS, advised

NAME = "checkpoint_read_early"
SAVES = "        torch.save(model.module.state_dict(), PATH)\n    if \"--fixed\""
LOADS = "    model.module.load_state_dict(torch.load(PATH))\n"
WRITES_A_PART = """        with open(PATH, "r+b") as file:
            file.truncate(100)
        open(PATH + ".part", "w").close()
"""
RANK_1_HAS_READ = """        while not os.path.exists(PATH + ".read"):
            time.sleep(0.01)
"""
READS_AND_SAYS_SO = """    while {waits} and dist.get_rank() == 1 and not os.path.exists(PATH + ".part"):
        time.sleep(0.01)
    try:
        best = torch.load(PATH)
    finally:
        open(PATH + ".read", "w").close()
    model.module.load_state_dict(best)
"""


def _raced(folder: Path, of_a_part: bool) -> Path:
    """The reported script: rank 0 is slow to write, and may have written a part."""
    text = (FOLDER / f"{NAME}.py").read_text()
    assert text.count(SAVES) == text.count(LOADS) == 1
    text = text.replace("import tempfile\n", "import tempfile\nimport time\n")
    text = text.replace("tempfile.gettempdir()", repr(str(folder)))
    text = text.replace(SAVES, (WRITES_A_PART if of_a_part else "") + RANK_1_HAS_READ + SAVES)
    script = folder / "raced.py"
    script.write_text(text.replace(LOADS, READS_AND_SAYS_SO.format(waits=of_a_part)))
    return script
WAITS_AS_IT_IS_LOADED = """class Last:
    def __reduce__(self):
        return wait_in_rank_1, ()


def wait_in_rank_1():
    if dist.get_rank() == 1:
        open(PATH + ".read", "w").close()
        while not os.path.exists(PATH + ".written"):
            time.sleep(0.01)


def main():
"""
SAVES_WITH_IT = "torch.save({\"state\": model.module.state_dict(), \"last\": Last()}, PATH)"
SAYS_IT_WROTE = """        open(PATH + ".written", "w").close()
    if \"--fixed\""""


@pytest.mark.parametrize("of_a_part", [False, True])
def test_a_file_read_before_it_is_written_is_named_where_it_does_harm(of_a_part: bool, tmp_path: Path) -> None:
    ran = run_job(_raced(tmp_path, of_a_part), 2, tmp_path / "trace", tmp_path)
    report = lockstep.check(tmp_path / "trace")
    harm = "progress" if of_a_part else "replicas-equal"
    assert {finding.law for finding in report.findings} == {harm}, f"{report}\n{ran.output}"
    assert all(ROWS[NAME].is_harm(finding) for finding in report.findings), str(report)
    assert "A-read-early" in advised(report)


def test_what_a_rank_loaded_is_not_mistaken_for_what_another_wrote_meanwhile(tmp_path: Path) -> None:
    text = _raced(tmp_path, of_a_part=False).read_text()
    for old, new in (("def main():\n", WAITS_AS_IT_IS_LOADED),
                     ("torch.save(model.module.state_dict(), PATH)", SAVES_WITH_IT),
                     ("    if \"--fixed\"", SAYS_IT_WROTE),
                     ("torch.load(PATH)", "torch.load(PATH, weights_only=False)[\"state\"]")):
        assert old in text, old
        text = text.replace(old, new)
    script = tmp_path / "raced.py"
    script.write_text(text)
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    report = lockstep.check(tmp_path / "trace")
    assert {finding.cause for finding in report.findings} == {"read-before-commit"}, f"{report}\n{ran.output}"


def test_a_monitored_barrier_orders_a_read_after_a_write(tmp_path: Path) -> None:
    text = (FOLDER / f"{NAME}.py").read_text().replace("tempfile.gettempdir()", repr(str(tmp_path)))
    waits = "        dist.barrier()\n    model.module"
    assert waits in text
    script = tmp_path / "monitored.py"
    script.write_text(text.replace(waits, "        dist.monitored_barrier()\n    model.module").replace('"--fixed" in', "True or"))
    run_job(script, 2, tmp_path / "trace", tmp_path)
    report = lockstep.check(tmp_path / "trace")
    assert report.ok and not advised(report), str(report)


EMPTY = """    if dist.get_rank() == 1:
        while not os.path.exists(PATH + ".empty"):
            time.sleep(0.01)
"""
IS_EMPTY = """        open(PATH, "w").close()
        open(PATH + ".empty", "w").close()
"""


def test_an_empty_file_was_read_as_well(tmp_path: Path) -> None:
    text = _raced(tmp_path, of_a_part=False).read_text()
    reads = "    try:\n        best = torch.load(PATH)\n"
    assert reads in text and RANK_1_HAS_READ in text
    script = tmp_path / "raced.py"
    script.write_text(text.replace(reads, EMPTY + reads).replace(RANK_1_HAS_READ, IS_EMPTY + RANK_1_HAS_READ))
    run_job(script, 2, tmp_path / "trace", tmp_path)
    report = lockstep.check(tmp_path / "trace")
    assert "A-read-early" in advised(report), str(report)
    assert {finding.law for finding in report.findings} == {"progress"}, str(report)
