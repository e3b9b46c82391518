"""A model like the wrapped one, which ranks use beside it, must be the same on all of them; models that need not be are left
alone. What modules are is compared, too."""
from __future__ import annotations

from pathlib import Path

import lockstep
import pytest
import torch
from forked import run_job
from lockstep.torch.model_description import descriptions
from torch import nn

JOB = '''
import copy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
copies = [copy.deepcopy(model) for _ in range({copies})]
ddp = DistributedDataParallel(model)
{before}
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
draws = torch.Generator().manual_seed(rank)
for step in range({steps}):
    x = torch.randn(4, 8, generator=draws)
    optimizer.zero_grad()
    loss = ddp(x).square().mean()
    {use}
    loss.backward()
    optimizer.step()
    {after}
dist.destroy_process_group()
'''
IN_LOSS = "loss = loss + copies[0](x).detach().mean()"
NONE = "pass"


def report_of(tmp_path: Path, before: str = NONE, use: str = NONE, after: str = NONE, copies: int = 1,
              steps: int = 5) -> lockstep.Report:
    script = tmp_path / "job.py"
    script.write_text(JOB.format(before=before, use=use, after=after, copies=copies, steps=steps))
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    return lockstep.check(tmp_path / "trace")


def test_a_copy_that_was_made_before_the_ranks_were_alike_is_named(tmp_path: Path) -> None:
    report = report_of(tmp_path, use=IN_LOSS)
    assert {(one.law, one.cause, one.ranks) for one in report.findings} == {("replicas-equal", "ema-drift", (1,))}
    assert {one.tensor for one in report.findings} == {"copy/0.weight", "copy/0.bias", "copy/2.weight", "copy/2.bias"}


def test_a_partially_initialised_copy_is_passed_over(tmp_path: Path) -> None:
    report = report_of(tmp_path, before="half_made = nn.Module.__new__(nn.Module)", use=IN_LOSS)
    assert report.findings


def test_hooks_of_the_program_that_come_later_still_run(tmp_path: Path) -> None:
    """A hook that removed itself while hooks run would end their loop with an error."""
    report_of(tmp_path, use=IN_LOSS, before="from torch.optim.optimizer import register_optimizer_step_post_hook as add; "
              "ran = []; add(lambda *_: ran.append(1))", after="assert len(ran) == step + 1")


def test_a_copy_that_only_evaluations_use_is_named(tmp_path: Path) -> None:
    report = report_of(tmp_path, after="ddp.eval(); torch.no_grad().__enter__(); copies[0](x); "
                                       "torch.set_grad_enabled(True); ddp.train()")
    assert {one.tensor for one in report.findings} >= {"evaluated copy/0.weight"}


HOOK = """
def own_gradients(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
ddp.register_comm_hook(None, own_gradients)
"""


def is_recorded(tmp_path: Path) -> bool:
    return 'copy/0.weight"' in (tmp_path / "trace" / "a000.rank-00001.jsonl").read_text()


@pytest.mark.parametrize("changed", [
    {"before": "copies[0].load_state_dict(model.state_dict())", "use": IN_LOSS},
    {"use": "if rank == 1: copies[0](x)"}], ids=["made equal", "used by one rank"])
def test_a_copy_that_is_equal_or_one_ranks_own_is_recorded_and_no_finding(
        tmp_path: Path, changed: dict[str, str]) -> None:
    report = report_of(tmp_path, **changed)  # type: ignore[arg-type]
    assert is_recorded(tmp_path) and not report.findings


@pytest.mark.parametrize("changed", [
    {"use": NONE}, {"use": IN_LOSS, "copies": 2}, {"before": "copies[0].append(nn.Linear(1, 1))", "use": IN_LOSS},
    {"use": "copies[0](x).mean().backward()"},
    {"before": "own = torch.optim.SGD(copies[0].parameters(), lr=0.1)", "use": IN_LOSS},
    {"use": "copies[0](x).mean().backward()", "after": "ddp.eval(); copies[0](x); ddp.train()"},
    {"before": "outer = nn.ModuleList([copies[0]])", "use": IN_LOSS},
    {"before": "copies[0] = DistributedDataParallel(copies[0])", "use": IN_LOSS},
    {"before": HOOK, "use": IN_LOSS},
    {"before": "ddp.require_backward_grad_sync = False", "use": IN_LOSS,
     "after": "ddp.require_backward_grad_sync = step % 2 == 0"},
    {"before": "copies[0][0].weight = type('Part', (nn.Parameter,), {})(copies[0][0].weight.data)", "use": IN_LOSS},
    {"before": "second = DistributedDataParallel(copies[1])", "use": IN_LOSS, "copies": 2},
    {"before": "ddp = DistributedDataParallel(model, process_group=dist.new_group([0, 1]))", "use": IN_LOSS}],
    ids=["never used", "one of two", "of another shape", "trained by itself", "in an optimizer of its own",
         "adapted, then evaluated", "part of another model", "wrapped itself", "ranks with a hook of their own",
         "ranks that train alone at times", "of parameters that may be parts", "of two wrapped models", "of a group"])
def test_other_copies_are_left_alone(tmp_path: Path, changed: dict[str, str]) -> None:
    report_of(tmp_path, **changed)  # type: ignore[arg-type]
    assert not is_recorded(tmp_path)


def test_a_copy_is_read_less_and_less_often(tmp_path: Path) -> None:
    """Looked for after step 1; as forward 17 begins it has been read at forwards 1, 2, 4, 8 and 16."""
    report_of(tmp_path, use=IN_LOSS, steps=20)
    lines = (tmp_path / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    assert sum('"copy/0.weight"' in line for line in lines) == 5


def test_modules_are_described_by_class_and_options() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.25), nn.Sequential(nn.LeakyReLU(0.5)))
    assert descriptions(model) == ("Sequential(); 0: Linear(in_features=2, out_features=2, bias=True); "
                                   "1: Dropout(p=0.25, inplace=False); 2: Sequential(); "
                                   "2.0: LeakyReLU(negative_slope=0.5)")


class Described(nn.Module):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def extra_repr(self) -> str:
        if not self.text:
            raise AttributeError("not yet")
        return self.text


@pytest.mark.parametrize(("text", "described"), [
    ("device=cuda:3", "Described(device=cuda)"), ("rank=3", ""), ("shard 1 of 2", ""), ("at 0x7f00a1", ""), ("", ""),
    ("a; b", "Described(a, b)"), ("a\nb", "Described(a b)"), ("x" * 999, "Described(" + "x" * 190)])
def test_what_is_each_ranks_own_is_in_no_description(text: str, described: str) -> None:
    assert descriptions(Described(text)) == described


def test_models_of_a_part_of_the_ranks_may_differ(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text('''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
torch.manual_seed(0)
layer = nn.ReLU() if rank < 2 else nn.Tanh()
ddp = DistributedDataParallel(nn.Sequential(nn.Linear(2, 1), layer), process_group=groups[rank // 2])
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for _ in range(2):
    ddp(torch.randn(2, 2)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
''')
    ran = run_job(script, 4, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0, 0, 0] and ran.troubles == [], ran.output
    assert lockstep.check(tmp_path / "trace").law("environment-bijective").findings == ()




def test_modules_that_are_watched_are_copied_and_saved_as_without_the_recorder(tmp_path: Path) -> None:
    """The wrapped one, one like it, and one that nothing trains."""
    report = report_of(
        tmp_path, before="copies[0].load_state_dict(model.state_dict())\n"
        "frozen = nn.Linear(8, 4).requires_grad_(False)\nnn.init.ones_(frozen.weight)",
        use=IN_LOSS + " + frozen(x).mean()",
        after="\n    ".join([
            "watched = [model, copies[0], frozen]",
            "assert step == 0 or all(module._forward_pre_hooks for module in watched), 'they are watched'",
            "twins = copy.deepcopy(copy.deepcopy(watched))",
            "assert all(torch.equal(one(x), two(x)) for one, two in zip(watched, twins))",
            f"torch.save((twins, watched, x), f'{tmp_path}/saved-{{rank}}.pt')"]))
    assert report.ok, str(report)
    twins, watched, x = torch.load(tmp_path / "saved-0.pt", weights_only=False)
    assert all(torch.equal(one(x), two(x)) for one, two in zip(watched, twins))
    assert "lockstep" not in (tmp_path / "saved-0.pt").read_bytes().decode("latin-1")
