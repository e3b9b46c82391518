"""Tensors that a call of the program's own still owns: what touches them is recorded, and nothing else is changed."""
from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked import run_job

HEAD = '''
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode as current
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(2, 1))
x, other = torch.ones(4), torch.ones(4)
rows = [torch.zeros(4), torch.zeros(4)]

class Counting(TorchDispatchMode):
    n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        Counting.n += 1
        return func(*args, **(kwargs or {}))

'''
# What a script does, and which touches of it are recorded: whether it writes, and the operation.
TOUCHED = {
    "a value": ("w = dist.all_reduce(x, async_op=True); x[0].item(); w.wait()", [(False, "_local_scalar_dense")]),
    "a sum": ("w = dist.all_reduce(x, async_op=True); x + 1; w.wait()", [(False, "add")]),
    "through a view": ("v = x.view(2, 2)\nw = dist.all_reduce(x, async_op=True); v.sum(); w.wait()", [(False, "sum")]),
    "a write": ("w = dist.all_reduce(x, async_op=True); x.zero_(); w.wait()", [(True, "zero_")]),
    "once for each line": ("w = dist.all_reduce(x, async_op=True)\nfor _ in range(3): x.sum()\nw.wait()", [(False, "sum")]),
    "a write to what is sent": ("w = dist.all_gather(rows, x, async_op=True); x.add_(1); w.wait()", [(True, "add_")]),
    "a part of what is gathered": ("w = dist.all_gather(rows, x, async_op=True); rows[1].sum(); w.wait()", [(False, "sum")]),
    "in a list": ("w = dist.all_reduce(x, async_op=True); torch.cat([other, x]); w.wait()", [(False, "cat")]),
    "of two calls the one that is open": (
        "a = dist.all_reduce(x, async_op=True); b = dist.all_reduce(other, async_op=True); a.wait(); x.sum(); other.sum(); b.wait()",
        [(False, "sum")]),
    "a wait in another group": (
        "pair = dist.new_group([0, 1])\nw = dist.all_reduce(x, async_op=True); dist.barrier(group=pair); x.sum(); w.wait()",
        [(False, "sum")]),
    "a wait for a call before it": (
        "a = dist.all_reduce(other, async_op=True); b = dist.all_reduce(x, async_op=True); a.wait(); x.sum(); b.wait()",
        [(False, "sum")]),
    "what is received": (
        "w = dist.irecv(x, 1 - rank) if rank == 0 else dist.isend(x, 1 - rank); x.sum(); w.wait()", [(False, "sum")]),
}
HOOKED = """
p, works = torch.nn.Parameter(torch.ones(4)), []
def hook(p):
    {hook}
p.register_post_accumulate_grad_hook(hook)
for _ in range(2):
    {before}
    p.grad = None
    p.sum().backward()
    {after}
"""
POSTS = "works.append(dist.all_reduce(p.grad, async_op=True))"
TOUCHED_OF_HOOKS = {
    "after the backward": (POSTS, "", "p.grad.add_(1); works.pop().wait()", [(True, "add_")] * 2),
    "in the hook": (f"{POSTS}; p.grad.sum(); works.pop().wait()", "", "p.grad.add_(1)", [(False, "sum")] * 2),
    "of a call that was posted before the backward": (
        "pass", "works.append(dist.all_reduce(x, async_op=True))", "x.sum(); works.pop().wait()", [(False, "sum")] * 2),
    "after a hook has waited for another call": (
        "works.pop().wait()", "works.append(dist.all_reduce(x, async_op=True))",
        "x.sum(); w = dist.all_reduce(other, async_op=True); other.sum(); w.wait()", [(False, "sum")] * 2),
    "after another hook's call": (
        f"{POSTS}; works.pop().wait()", "", "w = dist.all_reduce(other, async_op=True); other.sum(); w.wait()",
        [(False, "sum")] * 2),
}
UNTOUCHED = {
    "after the wait": "w = dist.all_reduce(x, async_op=True); w.wait(); x.sum()",
    "after its future": "w = dist.all_reduce(x, async_op=True); w.get_future().wait(); x.sum()",
    "once it is known to be over": "w = dist.all_reduce(x, async_op=True)\nwhile not w.is_completed(): pass\nx.sum()",
    "what is sent may be read": "w = dist.all_gather(rows, x, async_op=True); x.sum(); w.wait()",
    "its shape": "w = dist.all_reduce(x, async_op=True); torch.empty_like(x); x.view(2, 2); x.shape; w.wait()",
    "after a barrier of its group": "w = dist.all_reduce(x, async_op=True); dist.barrier(); x.sum(); w.wait()",
    "after a later call of its group": (
        "a = dist.all_reduce(x, async_op=True); b = dist.all_reduce(other, async_op=True); b.wait(); x.sum(); a.wait()"),
    "what the reducer posts when a program starts it": """
class Inside(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def forward(self, x):
        ddp.require_backward_grad_sync = False
        loss = self.layer(x).sum()
        ddp.reducer.prepare_for_backward([])
        loss.backward()
        ddp.reducer._delay_all_reduce()
        return loss.detach()

ddp = DistributedDataParallel(Inside(), static_graph=True)
ddp(torch.ones(1, 2))
ddp.module.layer.weight.grad.sum()
""",
    "another tensor": "w = dist.all_reduce(x, async_op=True); other.sum(); other.zero_(); w.wait()",
    "without async_op": "dist.all_reduce(x); x.sum()",
    "a mode of the program's own": "with Counting():\n    w = dist.all_reduce(x, async_op=True); x.sum(); w.wait()\nassert Counting.n",
}


def touches(body: str, scratch: Path, budget: float = 0.0) -> list[dict[str, object]]:
    """Those of rank 0."""
    script = scratch / "job.py"
    script.write_text(HEAD + body + "\nassert current() is None\nprint('left', rank)\ndist.destroy_process_group()\n")
    ran = run_job(script, 2, scratch / "trace", scratch, budget)
    assert ran.codes == [0, 0], ran.output
    assert ran.troubles == []
    assert ran.output.count("left") == 2
    events = [json.loads(line) for line in (scratch / "trace" / "a000.rank-00000.jsonl").read_text().splitlines()]
    return [event for event in events if event.get("kind") == "touch"]


@pytest.mark.parametrize("name", TOUCHED)
def test_what_touches_memory_in_flight_is_recorded(name: str, tmp_path: Path) -> None:
    body, expected = TOUCHED[name]
    found = touches(body, tmp_path)
    assert [(event["written"], event["operation"]) for event in found] == expected
    for event in found:
        assert str(event["site"]).startswith(str(tmp_path))
        assert str(event["posted_at"]).startswith(str(tmp_path))


@pytest.mark.parametrize("name", TOUCHED_OF_HOOKS)
def test_what_touches_memory_that_a_hook_has_sent_is_recorded(name: str, tmp_path: Path) -> None:
    """Autograd restores the thread's modes after each hook."""
    hook, before, after, expected = TOUCHED_OF_HOOKS[name]
    found = touches(HOOKED.format(hook=hook, before=before or "pass", after=after), tmp_path)
    assert [(event["written"], event["operation"]) for event in found] == expected


def test_a_backward_from_a_divided_loss_is_recorded_while_a_call_is_open(tmp_path: Path) -> None:
    """`touches` fails where the recorder has missed something."""
    assert touches("w = dist.all_reduce(x, async_op=True)\n(model(torch.ones(1, 2)).square().mean() / 2).backward()\nw.wait()", tmp_path) == []


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_does_not_touch_memory_in_flight_is_not_recorded(name: str, tmp_path: Path) -> None:
    assert touches(UNTOUCHED[name], tmp_path) == []


def test_a_touch_of_memory_in_flight_names_its_call(tmp_path: Path) -> None:
    [event] = touches("dist.barrier()\nw = dist.all_gather(rows, x, async_op=True)\nrows[0].sum()\nw.wait()", tmp_path)
    lines = HEAD.count("\n")
    assert event["call"] == "all_gather"
    assert event["receives"] is True
    assert str(event["posted_at"]).endswith(f":{lines + 2}")
    assert str(event["site"]).endswith(f":{lines + 3}")


def test_a_mode_that_the_program_enters_meanwhile_keeps_its_place(tmp_path: Path) -> None:
    """The watch below it stays until that mode is gone."""
    found = touches('''
w = dist.all_reduce(x, async_op=True)
with Counting() as mine:
    other.sum()
    w.wait()
    assert current() is mine
n = Counting.n
b = dist.all_reduce(other, async_op=True)
b.wait()
other.sum()
assert n and Counting.n == n
''', tmp_path)
    assert found == []


def test_a_call_that_is_never_waited_for_is_not_watched_for_ever(tmp_path: Path) -> None:
    found = touches('''
from lockstep.torch import in_flight
w = dist.all_reduce(x, async_op=True)
assert current() is not None
for _ in range(in_flight.MOST_OPERATIONS): other.add_(1)
x.sum()
dist.barrier()
b = dist.all_reduce(other, async_op=True)
b.wait()
''', tmp_path)
    assert found == []
