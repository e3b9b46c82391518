"""The search for mistakes that nothing notices: what it breaks, and what it makes of the outcome."""
from __future__ import annotations

import ast

from broken_lines import Judged, Outcome, outcome, variants

SCRIPT = '''"""Words."""
import os


def main():
    init_process_group()
    loader = make(shuffle=True)
    for batch in loader[rank:]:
        clear()
        step(batch)
    return loader
'''


def test_each_line_that_acts_is_broken_in_each_way() -> None:
    found = {one.what: one.source for one in variants(SCRIPT)}
    assert set(found) == {
        "rank 0 only: clear()", "left out: clear()", "after the next: clear()", "rank 0 only: step(batch)",
        "left out: step(batch)", "True is False in line 7", "rank is 0 in line 8"}
    assert "environ['RANK'] == '0':\n            clear()" in found["rank 0 only: clear()"]
    assert "clear()" not in found["left out: clear()"]
    assert found["after the next: clear()"].index("step(batch)") < found["after the next: clear()"].index("clear()")
    assert "shuffle=False" in found["True is False in line 7"]
    assert "loader[0:]" in found["rank is 0 in line 8"]
    assert all(ast.unparse(ast.parse(source)) == source for source in found.values())


def test_a_variant_is_missed_if_it_computes_something_else_without_a_word() -> None:
    healthy = Judged([0, 0], [], ["A-coverage"], "1f")
    assert outcome(healthy, Judged([0, 0], [], ["A-coverage"], "2e")) is Outcome.MISSED
    assert outcome(healthy, Judged([0, 0], [], ["A-coverage"], "1f")) is Outcome.SAME
    assert outcome(healthy, Judged([0, 1], [], [], "2e")) is Outcome.FAILED
    assert outcome(healthy, Judged([0, 1], [], ["A-other"], "2e")) is Outcome.ADVISED
    assert outcome(healthy, Judged([0, 1], ["no-set-epoch"], ["A-other"], "2e")) is Outcome.FOUND
