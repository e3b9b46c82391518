"""A program that sums gradients up by itself is recorded from its second step on, as what it did."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lockstep
import pytest
from forked import SCRIPTS, run_job

JOB = '''
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(5 + dist.get_rank())

def sizes():
    return " ".join(str(parameter.grad.double().abs().sum().item()) for parameter in model.parameters())

def backward(step, x):
    out, target = model(x), x.sum(1, keepdim=True)
    if step == 2:
        return nn.functional.mse_loss(out, target, reduction="sum").backward()
    if step == 3:
        return (nn.functional.l1_loss(out, target) / 2).backward()
    loss = nn.functional.mse_loss(out, target)
    loss.backward(torch.tensor(2.0)) if step == 4 else loss.backward()

for step in range(5):
    optimizer.zero_grad()
    backward(step, torch.randn(4, 4))
    added = sizes()
    for parameter in model.parameters():
        {sum}
    if dist.get_rank() == 0:
        print("added", added, flush=True)
        print("used", sizes(), flush=True)
    optimizer.step()
dist.destroy_process_group()
'''


def events_of(script: Path, scratch: Path) -> tuple[str, list[dict[str, Any]]]:
    ran = run_job(script, 2, scratch / "trace", scratch)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (scratch / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    return ran.output, [json.loads(line) for line in lines[1:]]


def job(scratch: Path, how: str) -> tuple[str, list[dict[str, Any]]]:
    script = scratch / "job.py"
    script.write_text(JOB.replace("{sum}", how))
    return events_of(script, scratch)


def test_what_is_added_and_used_is_what_the_program_has(tmp_path: Path) -> None:
    output, events = job(tmp_path, "dist.all_reduce(parameter.grad)")
    [wrap] = [event for event in events if event["kind"] == "wrap"]
    assert wrap["synchronizes"] is False
    assert wrap["params"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for word, point in (("added", "inc"), ("used", "used")):
        printed = [[float(one) for one in line.split()[1:]] for line in output.splitlines() if line.startswith(word)]
        recorded = [event for event in events if event["kind"] == "grad" and event["point"] == point]
        assert [event["at"][4] for event in recorded] == [1, 2, 3, 4]
        for event, sizes in zip(recorded, printed[1:]):
            assert [sketch[0] for sketch in event["sketches"]] == pytest.approx(sizes, rel=1e-12)


def kinds_at_wrap(scratch: Path, how: str) -> set[str]:
    _, events = job(scratch, how)
    return {event["kind"] for event in events if event["at"][4] <= 1 and event["kind"] in ("wrap", "param")
            and event.get("point", "wrap") == "wrap"}


def test_a_sum_on_one_rank_of_anything_but_gradients_changes_nothing(tmp_path: Path) -> None:
    assert kinds_at_wrap(tmp_path, "dist.all_reduce(parameter.grad); dist.reduce(torch.ones(3), 0)") == {"wrap", "param"}


def test_parameters_that_a_sum_on_one_rank_has_made_different_are_not_how_they_began(tmp_path: Path) -> None:
    assert kinds_at_wrap(tmp_path, "dist.reduce(parameter.grad, 0)") == {"wrap"}


def wrapped_by(scratch: Path, sends: str) -> list[list[str]]:
    """The parameters of what is recorded as a wrapper, where only gradients for which `sends` is true are sent."""
    _, events = job(scratch, f"dist.all_reduce(parameter.grad) if {sends} else None")
    return [event["params"] for event in events if event["kind"] == "wrap"]


def test_parameters_that_the_loop_leaves_out_are_of_no_wrapper(tmp_path: Path) -> None:
    assert wrapped_by(tmp_path, "parameter.numel() > 1") == [["0.weight", "0.bias", "2.weight"]]


def test_all_biases_are_the_smaller_part_of_the_gradients(tmp_path: Path) -> None:
    assert wrapped_by(tmp_path, "parameter.dim() > 1") == [["0.weight", "2.weight"]]


def test_a_loop_that_sends_the_smaller_part_of_the_gradients_says_nothing_of_the_rest(tmp_path: Path) -> None:
    assert wrapped_by(tmp_path, "parameter.dim() == 1") == []


HEADS = """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.first(x) if FIRST else self.second(x)

model = Heads()
"""


@pytest.mark.parametrize("first", ["True", "dist.get_rank() == 0"])
def test_parameters_without_gradients_belong_to_the_model(first: str, tmp_path: Path) -> None:
    whole = "model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))\n"
    sums = "for parameter in model.parameters():"
    assert whole in JOB and sums in JOB
    text = JOB.replace(whole, HEADS.replace("FIRST", first)).replace(sums, "for parameter in ():").replace("{sum}", "pass")
    text = text.replace("added = sizes()", "[dist.all_reduce(p.grad) for p in model.parameters() if p.grad is not None]")
    text = "\n".join(line for line in text.splitlines() if "print(" not in line and "get_rank() == 0:" not in line)
    (tmp_path / "job.py").write_text(text)
    _, events = events_of(tmp_path / "job.py", tmp_path)
    assert [event["params"] for event in events if event["kind"] == "wrap"] == \
        [["first.weight", "first.bias", "second.weight", "second.bias"]]
    assert {event["at"][4] for event in events if event["kind"] == "step"} == {1, 2, 3, 4}, "each step had all that it uses sent"
    lines = [line for path in (tmp_path / "trace").glob("*.jsonl") for line in path.read_text().splitlines()[1:]]
    began = [event["digests"] for event in map(json.loads, lines) if event["kind"] == "param" and event["point"] == "wrap"]
    assert len(began) == 2 and began[0] == began[1], "as before the first step, which may have made them differ"
    assert lockstep.check(tmp_path / "trace").ok == (first == "True")


@pytest.mark.parametrize(("order", "is_found"), [("[::-1]", True), ("[1:] + parts[:1]", True), ("[:0] + [part * part for part in parts]", False)])
def test_gradients_in_one_piece_are_known_in_any_order(order: str, is_found: bool, tmp_path: Path) -> None:
    sums = "for parameter in model.parameters():\n        {sum}"
    assert sums in JOB
    flat = (f"parts = [p.grad.reshape(-1) for p in model.parameters()]\n    flat = torch.cat(parts{order})\n    dist.all_reduce(flat)\n"
            "    [p.grad.add_(0.5) for p in model.parameters()]")
    (tmp_path / "job.py").write_text(JOB.replace(sums, flat))
    _, events = events_of(tmp_path / "job.py", tmp_path)
    assert any(event["kind"] == "wrap" for event in events) is is_found


def test_a_buffer_that_nothing_is_taken_from_reduces_nothing(tmp_path: Path) -> None:
    sums = "for parameter in model.parameters():\n        {sum}"
    (tmp_path / "job.py").write_text(JOB.replace(sums, "dist.all_reduce(torch.cat([p.grad.reshape(-1) for p in model.parameters()]))"))
    _, events = events_of(tmp_path / "job.py", tmp_path)
    assert not any(event["kind"] == "wrap" for event in events)


HOOKS = """
def average():
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)

for parameter in model.parameters():
    {hook}

def sizes("""


@pytest.mark.parametrize(("hook", "is_found"), [
    ("parameter.register_hook(lambda grad: dist.all_reduce(grad))", False),
    ("parameter.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))", True),
    ("parameter.register_hook(lambda grad: dist.all_reduce(grad[0]) if grad.dim() > 1 else None)", False),
    ("parameter.register_hook(lambda grad: torch.autograd.Variable._execution_engine.queue_callback(average))", True)])
def test_sums_that_hooks_make_are_known_at_the_end_of_a_backward(hook: str, is_found: bool, tmp_path: Path) -> None:
    """What a hook on a tensor sends is not yet part of a gradient."""
    text = JOB.replace("\ndef sizes(", HOOKS.replace("{hook}", hook))
    (tmp_path / "job.py").write_text(text.replace("for parameter in model.parameters():\n        {sum}", "pass"))
    _, events = events_of(tmp_path / "job.py", tmp_path)
    assert any(event["kind"] == "wrap" for event in events) == is_found


BUCKETS = """
waiting, sent = [], []

def reduce():
    buffer = torch.cat([parameter.grad.reshape(-1) for parameter in waiting])
    sent.append((dist.all_reduce(buffer, async_op=True), buffer, list(waiting)))
    waiting.clear()

def complete(parameter):
    waiting.append(parameter)
    if sum(one.numel() for one in waiting) >= SIZE:
        reduce()

def finish():
    if waiting:
        reduce()
    for work, buffer, parts in sent:
        work.wait()
        for parameter, part in zip(parts, buffer.split([parameter.numel() for parameter in parts])):
            parameter.grad.copy_(part.view_as(parameter) / dist.get_world_size())
    sent.clear()

for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(complete)

def sizes("""


@pytest.mark.parametrize("size", ["1", "4", "19"])
def test_buckets_that_hooks_send_are_parts_of_the_gradients(size: str, tmp_path: Path) -> None:
    text = JOB.replace("\ndef sizes(", BUCKETS.replace("SIZE", size))
    loop = "for parameter in model.parameters():\n        {sum}"
    (tmp_path / "job.py").write_text(text.replace(f"added = sizes()\n    {loop}", "added = sizes()\n    finish()"))
    _, events = events_of(tmp_path / "job.py", tmp_path)
    assert [event["params"] for event in events if event["kind"] == "wrap"] == [["0.weight", "0.bias", "2.weight", "2.bias"]]
    assert lockstep.check(tmp_path / "trace").ok


def test_a_gradient_is_looked_at_before_hooks_of_the_program_reduce_it(tmp_path: Path) -> None:
    """However early they were registered."""
    hooks = HOOKS.replace("{hook}", "parameter.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))")
    text = JOB.replace("\ndef sizes(", hooks)
    (tmp_path / "job.py").write_text(text.replace("for parameter in model.parameters():\n        {sum}", "pass"))
    events_of(tmp_path / "job.py", tmp_path)
    added, used = [], []
    for path in sorted((tmp_path / "trace").glob("*.jsonl")):
        events = [event for event in map(json.loads, path.read_text().splitlines()[1:]) if event["kind"] == "grad"]
        added.append([event["digests"] for event in events if event["point"] == "inc"])
        used.append([event["digests"] for event in events if event["point"] == "used"])
    assert len(added[0]) == 4 and all(ours != theirs for ours, theirs in zip(*added))
    assert used[0] == used[1]


def test_a_buffer_is_compared_with_gradients_only_until_the_loop_is_known(tmp_path: Path) -> None:
    sums = "for parameter in model.parameters():\n        {sum}"
    flat = ("parts = [p.grad.reshape(-1) for p in model.parameters()]\n    flat = torch.cat(parts)\n    dist.all_reduce(flat)\n"
            "    [p.grad.add_(0.5) for p in model.parameters()]\n    print('compared', dist.get_rank(), averaging.n, flush=True)")
    counts = ("from lockstep.torch import averaging\nreal, averaging.n = averaging._is_made_of, 0\n"
              "def counted(*args):\n    averaging.n += bool(args[1]) and all(one is not None for one in args[1])\n    return real(*args)\naveraging._is_made_of = counted\n")
    (tmp_path / "job.py").write_text(counts + JOB.replace(sums, flat))
    output, _ = events_of(tmp_path / "job.py", tmp_path)
    compared: dict[str, list[int]] = {"0": [], "1": []}
    for line in output.splitlines():
        if line.startswith("compared"):
            _, rank, n = line.split()
            compared[rank].append(int(n))
    # Which of the modules comes first is up to the garbage collector, on each rank by itself. Modules without gradients,
    # such as one that a test's file has made as it was imported, are passed by at each step.
    assert all(counts == [counts[0]] * 5 and counts[0] > 0 for counts in compared.values()), output


def test_a_loop_inside_a_closure_is_recorded_from_its_second_step_on(tmp_path: Path) -> None:
    body = "    optimizer.zero_grad()\n    backward(step, torch.randn(4, 4))\n"
    assert body in JOB
    text = JOB.replace(body, "    def closure():\n        optimizer.zero_grad()\n        backward(step, torch.randn(4, 4))\n"
                             "        [dist.all_reduce(p.grad) for p in model.parameters()]\n        return torch.zeros(())\n")
    text = text.replace("    optimizer.step()\n", "    optimizer.step(closure)\n").replace("added = sizes()", "added = ''")
    text = "\n".join(line for line in text.splitlines() if "print(" not in line and "get_rank() == 0:" not in line)
    text = text.replace("for parameter in model.parameters():", "for parameter in ():").replace("{sum}", "pass")
    (tmp_path / "job.py").write_text(text)
    _, events = events_of(tmp_path / "job.py", tmp_path)
    assert [event["params"] for event in events if event["kind"] == "wrap"] == [["0.weight", "0.bias", "2.weight", "2.bias"]]


def test_losses_say_whether_the_backward_starts_from_a_mean(tmp_path: Path) -> None:
    _, events = job(tmp_path, "dist.all_reduce(parameter.grad)")
    losses = [event["reduction"] for event in events if event["kind"] == "loss"]
    assert losses == ["mean", "mean", "sum", "given", "given"]


@pytest.mark.parametrize("how", [
    "dist.all_reduce(parameter.grad.clone())",
    "dist.all_reduce(parameter.data)",
    "dist.all_reduce(parameter.grad, op=dist.ReduceOp.MAX)",
    "dist.all_reduce(parameter.grad) if parameter.dim() == 1 else None"])
def test_sums_of_something_else_make_no_replicas(how: str, tmp_path: Path) -> None:
    _, events = job(tmp_path, how)
    assert [event for event in events if event["kind"] in ("wrap", "grad")] == []


@pytest.mark.parametrize(("script", "steps"), [
    ("averaged_for_a_while.py", {1, 2, 3, 4, 5}), ("outer_optimizer.py", set()), ("sharded_by_hand.py", set())])
def test_steps_that_ranks_take_apart_are_left_out(script: str, steps: set[int], tmp_path: Path) -> None:
    _, events = events_of(SCRIPTS / script, tmp_path)
    assert {event["at"][4] for event in events if event["kind"] == "step"} == steps
    assert any(event["kind"] == "wrap" for event in events) == bool(steps)


SENDS = "dist.send({0}, 1) if dist.get_rank() == 0 else dist.recv({0}, 0)"


@pytest.mark.parametrize(("script", "broadcasts", "instead"), [
    ("reduced_to_one.py", "dist.broadcast(whole, 0)", "dist.broadcast(whole, 0)"),
    ("reduced_to_one.py", "dist.broadcast(whole, 0)", SENDS.format("whole")),
    ("reduced_to_owners.py", "dist.broadcast(parameter.data, owner)", "dist.broadcast(parameter.data, owner)"),
    ("reduced_to_owners.py", "dist.broadcast(parameter.data, owner)", SENDS.format("parameter.data"))])
def test_steps_after_which_parameters_are_sent_are_left_out(
        script: str, broadcasts: str, instead: str, tmp_path: Path) -> None:
    text = (SCRIPTS / script).read_text()
    assert broadcasts in text
    (tmp_path / "job.py").write_text(text.replace(broadcasts, instead))
    _, events = events_of(tmp_path / "job.py", tmp_path)
    of_models = [event["kind"] for event in events if event["kind"] in ("wrap", "grad", "param", "step")]
    assert of_models == ["wrap"]


def test_gradients_of_as_many_bytes_as_the_parameters_are_no_parameters(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    whole = "nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))"
    assert whole in JOB
    script.write_text(JOB.replace(whole, "nn.Linear(4, 1, bias=False)").replace("{sum}", "dist.reduce(parameter.grad, 0)"))
    _, events = events_of(script, tmp_path)
    assert {event["at"][4] for event in events if event["kind"] == "step"} == {1, 2, 3, 4}


LATE = '''
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(5 + dist.get_rank())
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 4)).square().mean().backward()
    optimizer.step()
    {after}
dist.destroy_process_group()
'''
SENDS_ALL = "[dist.all_reduce(p.grad) for p in model.parameters()]"


@pytest.mark.parametrize(("after", "is_recorded"), [
    (SENDS_ALL, True),
    ("[dist.all_reduce(p.grad) for p in model[0].parameters()]", False),
    ("[dist.all_reduce(p.grad.clone()) for p in model.parameters()]", False),
    ("[dist.all_reduce(p.data) for p in model.parameters()]", False)])
def test_a_loop_that_sends_all_gradients_after_the_step_that_used_them_is_recorded(
        after: str, is_recorded: bool, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(LATE.format(after=after))
    _, events = events_of(script, tmp_path)
    assert any(event.get("kind") == "wrap" for event in events) is is_recorded


def test_where_parameters_are_sent_as_well_the_late_gradients_are_no_finding(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(LATE.format(after=f"{SENDS_ALL}; [dist.all_reduce(p.data) for p in model.parameters()]"))
    events_of(script, tmp_path)
    assert lockstep.check(tmp_path / "trace").ok


def test_the_data_of_a_loop_are_those_of_its_first_step_too_and_weigh_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text('''
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
torch.manual_seed(3)
data, held_out = TensorDataset(torch.randn(10, 4)), TensorDataset(torch.randn(4, 4))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in DataLoader(data, batch_size=2, sampler=DistributedSampler(data, shuffle=False)):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
model.eval()
with torch.no_grad():
    for (x,) in DataLoader(held_out, batch_size=2, sampler=DistributedSampler(held_out, shuffle=False)):
        model(x)
dist.destroy_process_group()
''')
    ran = run_job(tmp_path / "job.py", 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    lines = (tmp_path / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if "kind" in event]
    opt = 4  # In a position: steps of the optimizer before.
    samples = [(event["at"][opt], event["split"], [number % (1 << 40) for number in event["ids"]])  # By data set.
               for event in events if event["kind"] == "sample"]
    assert samples == [
        (0, "train", [0, 2]), (1, "train", [4, 6]), (2, "train", [8]), (3, "eval", [0, 2])]
    assert not any(event["kind"] == "batch" for event in events)


def test_an_evaluation_is_recorded_with_the_buffers_that_it_was_made_with(tmp_path: Path) -> None:
    """Once it is over: a step goes on, or the program ends."""
    _, events = events_of(SCRIPTS.parent / "reported" / "loop_buffers_apart.py", tmp_path)
    [wrap] = [event for event in events if event["kind"] == "wrap"]
    assert wrap["buffers"] == ["1.running_mean", "1.running_var"]
    kept = [event for event in events if event["kind"] in ("phase", "buffer") and event["at"][1] == 0]
    assert [(event["kind"], event.get("phase", event.get("point")), event["at"][4]) for event in kept] == [
        ("phase", "eval", 3), ("buffer", "eval", 3), ("phase", "train", 3), ("phase", "eval", 6), ("buffer", "eval", 6)]


SPARSE = '''
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(3)
table, head = nn.Embedding(6, 4, sparse=True), nn.Linear(4, 1)
optimizers = torch.optim.SparseAdam(table.parameters()), torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(4):
    for optimizer in optimizers:
        optimizer.zero_grad()
    head(table(torch.randint(0, 6, (8,)))).square().mean().backward()
    for parameter in (*table.parameters(), *head.parameters()):
        dense = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
        dist.all_reduce(dense)
        parameter.grad = (dense / 2).to_sparse(1) if parameter.grad.is_sparse else dense / 2
    for optimizer in optimizers:
        optimizer.step()
dist.destroy_process_group()
'''


def test_a_loop_that_averages_sparse_gradients_is_no_trouble(tmp_path: Path) -> None:
    script = tmp_path / "sparse.py"
    script.write_text(SPARSE)
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    assert lockstep.check(tmp_path / "trace").findings == ()
