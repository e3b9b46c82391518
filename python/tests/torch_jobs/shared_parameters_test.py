"""Models that are wrapped apart and share parameters: no law accuses what they reduce in turn, and what none reduces is noticed."""
from __future__ import annotations

import json
from pathlib import Path

import lockstep
import pytest
from forked import Ran, run_job
from reported import FOLDER

JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
trunk, heads = nn.Linear(4, 8), [nn.Linear(8, 1), nn.Linear(8, 1)]
first = DistributedDataParallel(nn.Sequential(trunk, nn.Tanh(), heads[0]))
second = DistributedDataParallel(nn.Sequential(nn.Identity(), trunk, nn.Tanh(), heads[1]))
optimizer = torch.optim.SGD([*trunk.parameters(), *heads[0].parameters(), *heads[1].parameters()], lr=0.1)
draws = torch.Generator().manual_seed(dist.get_rank())
for step in range({steps}):
    x = torch.randn(4, 4, generator=draws)
    optimizer.zero_grad()
    {backwards}
    optimizer.step()
    {after}
    print("trunk", trunk.weight.sum().item(), flush=True)
dist.destroy_process_group()
'''
IN_TURN = "first(x).mean().backward(); second(x).square().mean().backward()"
THE_OTHER_WAY = "second(x).square().mean().backward(); first(x).mean().backward()"
TOGETHER = "(first(x).mean() + second(x).square().mean()).backward()"
NUDGED = "trunk.weight.data += 0.1 * dist.get_rank() * (step == 2)"


def ran(scratch: Path, backwards: str, after: str = "pass", steps: int = 4) -> tuple[Ran, lockstep.Report]:
    script = scratch / "job.py"
    script.write_text(JOB.format(backwards=backwards, after=after, steps=steps))
    job = run_job(script, 2, scratch / "trace", scratch)
    assert job.codes == [0, 0], job.output
    return job, lockstep.check(scratch / "trace")


IN_EITHER_ORDER = f"if step % 2: {IN_TURN}\n    else: {THE_OTHER_WAY}"


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("backwards", [IN_TURN, THE_OTHER_WAY, TOGETHER, IN_EITHER_ORDER])
def test_a_sum_of_two_wrappers_means_is_silent(backwards: str, steps: int, tmp_path: Path) -> None:
    job, report = ran(tmp_path, backwards, steps=steps)
    lines = [line for line in job.output.splitlines() if line.startswith("trunk")]
    assert len(lines) == 2 * steps and sorted(lines) == sorted(2 * lines[:steps]), "the replicas are equal"
    assert report.ok, str(report)
    assert [advice for law in report.laws for advice in law.advice] == []
    assert {report.law(name).verdict for name in ("gradient-mean", "reduced-once", "replicas-equal")} == {"holds"}
    assert_that_steps_use_what_their_wrapper_has_reduced(tmp_path / "trace", steps)


def test_an_optimizer_of_two_wrappers_steps_each_of_them_at_its_own_rate(tmp_path: Path) -> None:
    job = run_job(FOLDER / "two_wrappers_not_cleared.py", 2, tmp_path / "trace", tmp_path, arguments=("--fixed",))
    assert job.codes == [0, 0], job.output
    events = [json.loads(line) for line in (tmp_path / "trace" / "a000.rank-00001.jsonl").read_text().splitlines()[1:]]
    steps = [(*event["at"][1:5:3], event["lr"], event["names"]) for event in events if event["kind"] == "step"]
    assert steps == [(wrapper, step, lr, names) for step in range(5) for wrapper, lr, names in
                     ((0, 0.02, ["0.weight", "0.bias"]), (1, 0.1, ["weight", "bias"]))]


def assert_that_steps_use_what_their_wrapper_has_reduced(trace: Path, steps: int) -> None:
    """Each step's gradients are those of the last average of the wrapper to which they belong."""
    events = [json.loads(line) for line in (trace / "a000.rank-00000.jsonl").read_text().splitlines()[1:]]
    averages: dict[tuple[int, str], str] = {}
    n_of_trunk = 0  # Each wrapper has its own name for it.
    for event in events:
        if event["kind"] != "grad" or event["point"] not in ("post", "used"):
            continue
        for name, digest in zip(event["names"], event["digests"], strict=True):
            if event["point"] == "post":
                averages[event["at"][1], name] = digest
            else:
                assert averages[event["at"][1], name] == digest
                n_of_trunk += name == ("0.weight", "1.weight")[event["at"][1]]
    assert n_of_trunk == steps


@pytest.mark.parametrize(("last", "causes"), [
    ("second.module(x).square().mean().backward()", {"last-micro-unsynced", "bypass-wrapper"}),
    ("with second.no_sync(): second(x).square().mean().backward()", {"last-micro-unsynced"}),
    ("second(x).square().mean().backward(); trunk.weight.grad *= 1 + dist.get_rank()", set())])
def test_a_parameter_that_no_wrapper_reduces_is_noticed(last: str, causes: set[str], tmp_path: Path) -> None:
    _, report = ran(tmp_path, f"first(x).mean().backward()\n    {last}")
    found = [finding for finding in report.findings if finding.step == 0 and finding.tensor in ("0.weight", "1.weight")]
    assert any(finding.law == "replicas-equal" and finding.ranks == (1,) for finding in found), str(report)
    unreduced = [finding for finding in report.findings if finding.law == "reduced-once" and finding.step == 0]
    assert {finding.cause for finding in unreduced} == causes, str(report)


def test_what_no_optimizer_has_is_advice_where_one_optimizer_steps_for_both(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB.replace(", *heads[1].parameters()]", "]").format(backwards=IN_TURN, after="pass", steps=4))
    run_job(script, 2, tmp_path / "trace", tmp_path)
    report = lockstep.check(tmp_path / "trace")
    assert report.ok, str(report)
    [advice] = report.law("trained-set").advice
    assert advice.startswith("A-not-optimised: 2 parameters (first: `3.weight`)"), advice


# The first wrapper waits for a backward that never comes: it is gone when the model is wrapped anew.
ANEW = "model = nn.Sequential(trunk, nn.Tanh(), heads[0])\nfirst = DistributedDataParallel(model)\nfirst(torch.ones(1, 4))\n" \
    "first = DistributedDataParallel(model)\n"


def test_what_no_wrapper_reduces_after_a_model_was_wrapped_anew_is_noticed(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    both = JOB.index("first = ")
    text = JOB[:both] + ANEW + JOB[JOB.index("optimizer = "):]
    script.write_text(text.format(backwards="with first.no_sync(): first(x).mean().backward()", after="pass", steps=4))
    run_job(script, 2, tmp_path / "trace", tmp_path)
    findings = lockstep.check(tmp_path / "trace").findings
    assert {finding.tensor for finding in findings if finding.law == "reduced-once"} >= {"0.weight", "2.bias"}


def test_replicas_that_come_apart_are_noticed(tmp_path: Path) -> None:
    _, report = ran(tmp_path, IN_TURN, NUDGED)
    [finding] = [one for one in report.findings if one.cause == "parameter-nudged"]
    assert (finding.law, finding.tensor, finding.step) == ("replicas-equal", "1.weight", 3), str(report)
