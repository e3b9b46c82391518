"""Results that overwrite one another, and results that nothing holds: what is said of them, and of what looks alike."""
from __future__ import annotations

import dis
import sys
from pathlib import Path

import lockstep
import pytest
import torch
from forked import run_job
from lockstep.torch import dropped_results
from lockstep.torch.overlapping_results import overlap

HEAD = '''
import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from torch.distributed import all_reduce

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.tensor([3.0 + rank, 5.0])
n = 7 + rank


def summed(value):
    mine = torch.tensor(value)
    dist.all_reduce(mine)
    return mine.item()


def held():
    return x


class holder:
    x = torch.tensor([3.0 + rank, 5.0])

    @staticmethod
    def sum():
        return holder.x


'''
TAIL = "\ndist.destroy_process_group()\n"
LINE = HEAD.count("\n") + 1
needs_positions = pytest.mark.skipif(sys.version_info < (3, 11), reason="code knows no columns before Python 3.11")


def run(folder: Path, line: str, ranks: int = 2) -> tuple[list[str], list[str]]:
    """What ranks said of results, and the advice."""
    script = folder / "job.py"
    script.write_text(HEAD + line + TAIL)
    ran = run_job(script, ranks, folder / "trace", folder)
    assert ran.codes == [0] * ranks and ran.troubles == [], ran.output
    report = lockstep.check(folder / "trace")
    assert report.findings == ()
    said = [text for text in ran.output.splitlines() if "into the same memory" in text or "no variable holds" in text]
    return sorted(said), [text for law in report.laws for text in law.advice if text.startswith("A-result")]


@needs_positions
@pytest.mark.parametrize(("line", "operation", "made"), [
    ("dist.all_reduce(x.clone())", "all_reduce", "x.clone()"),
    ("dist.all_reduce(holder.x.clone())", "all_reduce", "holder.x.clone()"),
    ("dist.all_reduce(torch.tensor(n).to(torch.float64))", "all_reduce", "torch.tensor(n).to(torch.float64)"),
    ("dist.all_reduce(x[:2].square().sum())", "all_reduce", "x[:2].square().sum()"),
    ("dist.all_reduce((x / n).sqrt())", "all_reduce", "(x / n).sqrt()"),
    ("all_reduce(x / world)", "all_reduce", "x / world"),
    ("dist.all_reduce(-x)", "all_reduce", "-x"),
    ("dist.all_reduce(torch.tensor(n))", "all_reduce", "torch.tensor(n)"),
    ("dist.all_reduce(op=dist.ReduceOp.MAX, tensor=torch.tensor(\n    n))", "all_reduce", "torch.tensor(n)"),
    ("é = 1; dist.all_reduce(x.clone().detach())", "all_reduce", "x.clone().detach()"),
])
def test_a_result_in_a_tensor_that_no_variable_holds_is_advised_against(line: str, operation: str, made: str,
                                                                        tmp_path: Path) -> None:
    said, (advice,) = run(tmp_path, line)
    text = f"the {operation} at {tmp_path / 'job.py'}:{LINE} has its result in {made}, which no variable holds"
    assert said == [f"lockstep: rank {rank}: {text}" for rank in (0, 1)]
    assert advice.startswith(f"A-result-dropped: ranks 0, 1: {text}. The call works in place")


@needs_positions
@pytest.mark.parametrize(("names", "n_said"), [("model.eval()", 2), ("torch.vmap.__dict__; model.train().eval()", 2), ("eval('1')", 0)])
def test_a_method_of_the_name_of_a_function_shows_no_variables(names: str, n_said: int, tmp_path: Path) -> None:
    """Only a function that has asked for its variables itself is not looked into."""
    body = f"def evaluate(model, y):\n    {names}\n    dist.all_reduce(y.clone())\nevaluate(torch.nn.Linear(2, 1), x)"
    assert len(run(tmp_path, body)[0]) == n_said


@needs_positions
def test_only_ranks_that_receive_a_broadcast_lose_it(tmp_path: Path) -> None:
    said, (advice,) = run(tmp_path, "dist.broadcast(torch.tensor(n), 0)")
    assert len(said) == 1
    assert advice.startswith("A-result-dropped: rank 1: the broadcast at ")


@needs_positions
def test_a_place_is_named_once_and_looked_at_three_times(tmp_path: Path) -> None:
    for name, made, n_said in (("always", "x.clone()", 2), ("from the fourth on", "torch.tensor(float(i > 2) * n)", 0),
                               ("from the third on", "torch.tensor(float(i > 1) * n)", 2)):
        folder = tmp_path / name
        folder.mkdir()
        assert len(run(folder, f"for i in range(5):\n    dist.all_reduce({made})")[0]) == n_said


@pytest.mark.parametrize("line", [
    "summed(n)",
    "dist.all_reduce(x)",
    "dist.all_reduce(held())",
    "dist.all_reduce(x.cpu())",
    "dist.all_reduce(holder.x.cpu())",
    "dist.all_reduce(holder.x.to(torch.float32))",
    "dist.all_reduce(holder.x.div_(world))",
    "dist.all_reduce(torch.as_tensor(holder.x))",
    "dist.all_reduce(holder.sum())",
    "def there(y):\n    dist.all_reduce(y.cpu())\nthere(x.clone())",
    "def asks(y):\n    locals()\n    dist.all_reduce(y.clone())\nasks(x)",
    "dist.all_reduce(x.view(-1))",
    "dist.all_reduce(x[:1])",
    "dist.all_reduce(x.detach())",
    "a = np.array([1.0 + rank, 2.0]); dist.all_reduce(torch.from_numpy(a))",
    "dist.all_reduce(torch.zeros(1))",
    "dist.all_reduce(torch.ones(4))",
    "dist.all_reduce(torch.empty(0))",
    "dist.all_reduce(torch.tensor(n), async_op=True).wait()",
    "dist.all_reduce(kept := x.clone())",
    "sum_of_all = differentiable.all_reduce(x.clone())",
    "dist.reduce(torch.tensor(n), 0)",
])
def test_a_result_that_is_held_or_says_nothing_is_not_spoken_of(line: str, tmp_path: Path) -> None:
    assert run(tmp_path, line) == ([], [])


@pytest.mark.parametrize(("line", "operation"), [
    ("everyone = [torch.zeros(2)] * world\ndist.all_gather(everyone, x)", "all_gather"),
    ("one = torch.zeros(3)\ndist.all_gather([one[:2], one[1:]], x)", "all_gather"),
    ("sent = [x] * world\ndist.all_to_all([torch.zeros(2)] * world, sent)", "all_to_all"),
])
def test_results_that_share_memory_are_advised_against(line: str, operation: str, tmp_path: Path) -> None:
    said, (advice,) = run(tmp_path, f"for i in range(2):\n    {line}".replace("\nd", "\n    d"))
    text = f"the {operation} at {tmp_path / 'job.py'}:{LINE + 2} writes what several ranks have sent into the same memory"
    assert said == [f"lockstep: rank {rank}: {text}" for rank in (0, 1)]
    assert advice.startswith(f"A-results-overlap: ranks 0, 1: {text}. Only what came last is there")


def test_only_the_rank_that_gathers_has_results(tmp_path: Path) -> None:
    line = "dist.gather(x, [torch.zeros(2)] * world if rank == 1 else None, dst=1)"
    _, (advice,) = run(tmp_path, line)
    assert advice.startswith("A-results-overlap: rank 1: the gather at ")


@pytest.mark.parametrize("line", [
    "dist.all_gather([torch.zeros(2) for _ in range(world)], x)",
    "dist.all_gather(list(torch.zeros(world, 2)), x)",
    "dist.scatter(x, [x] * world if rank == 0 else None, src=0)",
    "dist.all_to_all([torch.zeros(2) for _ in range(world)], [x] * world)",
])
def test_results_beside_each_other_are_not_spoken_of(line: str, tmp_path: Path) -> None:
    assert run(tmp_path, line) == ([], [])


def test_memory_overlaps_by_an_element_or_not_at_all() -> None:
    whole = torch.zeros(6)
    assert overlap([whole[3:], whole[:4]])
    assert not overlap([whole[3:], whole[:3]])
    assert not overlap([whole[2:2], whole])  # Nothing is written there.
    assert not overlap(list(torch.zeros(4, 4).T))  # Columns lie in each other.


def test_a_call_is_read_where_it_is_written() -> None:
    def calls() -> None:
        print(abs(-1), "é", max(
            2, 3))

    found = [written for one in dis.get_instructions(calls) if one.opname == "CALL"
             if (written := dropped_results._call_at(calls.__code__, one.offset)) is not None]
    names = [getattr(one.func, "id", "") for one in found]
    assert names == (["abs", "max", "print"] if sys.version_info >= (3, 11) else [])


def test_without_a_source_nothing_is_known() -> None:
    scope: dict[str, object] = {}
    exec(compile("def call():\n    print(1)\n", "nowhere.py", "exec"), scope)
    code = scope["call"].__code__  # type: ignore[attr-defined]
    assert all(dropped_results._call_at(code, one.offset) is None for one in dis.get_instructions(code))
