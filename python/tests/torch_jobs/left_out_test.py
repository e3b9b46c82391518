"""Windows that a budget leaves out: their samples and calls still count, and no law accuses a rank of
what its recorder left out."""
from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import lockstep
import pytest
from budget_test import BUDGET
from forked import SCRIPTS, run_job
from lockstep._core import watch_open, watch_poll
from lockstep.torch import budget
from lockstep.torch.budget import AGAIN, ENOUGH, FIRST, LEARNING, MOST_LEFT_OUT, Look, Looking
from lockstep.torch.left_out import LeftOut
from lockstep.torch.wrapping import Wrapper
from soaking import with_ranks
from unchanged_test import CONFIGURATIONS, JOB, PLAIN

HEALTHY = ["clean.py", "accumulation.py", "clipping.py", "mixed_precision.py", "find_unused.py", "batch_norm_eval.py",
           "workers.py", "iterable.py", "join.py", "validation.py", "two_trainings.py", "gan.py", "static_graph.py",
           "sum_times_ranks.py", "monitored.py", "local_dropout.py", "early_stop.py", "zero_optimizer.py"]
N_STEPS = 160  # Of the scripts as they are made longer: four epochs of forty.
ODD_STEP = 61  # Left out on all ranks.


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 records the events of each 4th window, other ranks those of each 16th; nothing is measured."""
    real = Looking.__init__

    def __init__(self: Looking, budget: float = 0.0) -> None:
        real(self, budget)
        if budget:
            self.often = 4 if os.environ["RANK"] == "0" else 16

    monkeypatch.setattr(Looking, "__init__", __init__)
    for adapt in ("_adapt_events", "_adapt_whole"):
        monkeypatch.setattr(Looking, adapt, lambda self: None)
    monkeypatch.setattr(budget, "LEARNING", range(0))


def events_of(folder: Path, rank: int) -> list[dict[str, Any]]:
    lines = (folder / f"a000.rank-{rank:05}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def left_out(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event.get("status") == "left_out"]


def longer(script: str, scratch: Path) -> Path:
    """The script with more epochs, and more batches in each, as far as it has any."""
    text = (SCRIPTS / script).read_text()
    path = scratch / script
    path.write_text(text.replace("range(3)", "range(4)").replace("torch.randn(48, 8)", "torch.randn(480, 8)"))
    return path


@pytest.mark.parametrize(("script", "ranks"), with_ranks(HEALTHY))
def test_a_healthy_job_is_silent_where_ranks_leave_out_other_windows(script: str, ranks: int, seldom: None,
                                                                     tmp_path: Path) -> None:
    ran = run_job(longer(script, tmp_path), ranks, tmp_path / "trace", tmp_path, BUDGET)
    assert ran.codes == [0] * ranks and ran.troubles == [], ran.output
    report = lockstep.check(tmp_path / "trace")
    assert report.ok, str(report)


def test_samples_steps_and_the_number_of_calls_are_those_of_a_whole_recording(seldom: None, tmp_path: Path) -> None:
    script = longer("clean.py", tmp_path)
    for name, budget in (("some", BUDGET), ("whole", 0.0)):
        ran = run_job(script, 2, tmp_path / name, tmp_path, budget)
        assert ran.codes == [0, 0], ran.output
    for rank in (0, 1):
        some, whole = (events_of(tmp_path / name, rank) for name in ("some", "whole"))
        samples = [[(event["at"], event["ids"]) for event in events if event["kind"] == "sample"]
                   for events in (some, whole)]
        assert samples[0] == samples[1] and len(samples[0]) == N_STEPS
        steps = [[event["at"][4] for event in events if event["kind"] == "step"] for events in (some, whole)]
        # Two windows of each epoch show how it began.
        expected = {n for n in range(N_STEPS) if n < FIRST or n % (4 if rank == 0 else 16) == 0 or n % 40 < 2}
        assert steps[1] == list(range(N_STEPS)) and steps[0] == sorted(expected)
        last = [max(event["seq"] for event in events if event["kind"] == "collective") for events in (some, whole)]
        assert last[0] == last[1]
        assert left_out(some) and not left_out(whole)


ONE_LIST = """
class OneList:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == 6:
                yield batch
                batch.clear()

    def __len__(self):
        return len(self.sampler) // 6


def main():"""
WITHOUT_END = """
class WithoutEnd:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        for epoch in range(4):
            self.sampler.set_epoch(epoch)
            yield from torch.utils.data.BatchSampler(self.sampler, 6, True)


def main():"""
LOADER = "DataLoader(data, batch_size=6, sampler=sampler)"
LOOP = "        for x, y in loader:\n"
LOADERS = {
    "that give the same list again": {"\ndef main():": ONE_LIST,
                                      LOADER: "DataLoader(data, batch_sampler=OneList(sampler))"},
    "of tensors as indices": {"\ndef main():": ONE_LIST.replace("append(index)", "append(torch.tensor(index))"),
                              LOADER: "DataLoader(data, batch_sampler=OneList(sampler))"},
    "of a sampler without end": {"\ndef main():": WITHOUT_END, "        sampler.set_epoch(epoch)\n": "        if epoch:\n            break\n",
                                 LOADER: "DataLoader(data, batch_sampler=WithoutEnd(sampler))"},
    "of a part of a set": {"    sampler =": "    data = torch.utils.data.Subset(data, range(479, -1, -1))\n    sampler ="},
    "with workers": {LOADER: LOADER[:-1] + ", num_workers=2, persistent_workers=True)"},
    "with batches that are thrown away": {LOOP: LOOP + "            if int(x[0, 0] * 1e4) % 3 == 0:\n                continue\n"},
    "of two sets": {
        "    model =": "    more = TensorDataset(inputs + 1, inputs.sum(1, keepdim=True))\n"
                       "    other = DataLoader(more, batch_size=6, sampler=sampler)\n    model =",
        LOOP: "        for n, both in enumerate(zip(loader, other)):\n            x, y = both[n % 2 if n % 7 else 1]\n"},
    "with an evaluation in a step": {
        "            optimizer.zero_grad()\n": "            if int(x[0, 0] * 1e4) % 13 == 0:\n                model.eval()\n"
                                             "                model(x)\n                model.train()\n"
                                             "            optimizer.zero_grad()\n"},
    "of a second training": {"    dist.destroy": """    second = DistributedDataParallel(nn.Linear(8, 1))
    last = torch.optim.SGD(second.parameters(), lr=0.05)
    for x, y in loader:
        nn.functional.mse_loss(second(x), y).backward()
        last.step()
    dist.destroy"""},
}


@pytest.mark.parametrize("loaders", list(LOADERS))
def test_the_samples_of_loaders_are_those_of_a_whole_recording(loaders: str, seldom: None, tmp_path: Path) -> None:
    script = longer("clean.py", tmp_path)
    text = script.read_text()
    for old, new in LOADERS[loaders].items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    script.write_text(text)
    for name, budget in (("some", BUDGET), ("whole", 0.0)):
        ran = run_job(script, 2, tmp_path / name, tmp_path, budget)
        assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    for rank in (0, 1):
        some, whole = (events_of(tmp_path / name, rank) for name in ("some", "whole"))
        samples = [[(event["at"], event["split"], event["ids"]) for event in events if event["kind"] == "sample"]
                   for events in (some, whole)]
        assert samples[0] == samples[1] and len(samples[0]) > 100
        assert left_out(some)


TABLES = """
            if epoch == 2:
                first, *others = model.parameters()
                print("tables", dist.get_rank(), [p._backward_hooks for p in others], len(first._backward_hooks or ()), flush=True)
"""


def test_parameters_that_are_not_looked_at_have_no_hooks_but_the_programs_own(tmp_path: Path, seldom: None) -> None:
    script = longer("clean.py", tmp_path)
    text = script.read_text().replace("    optimizer =", "    calls = []\n"
                                      "    next(model.parameters()).register_hook(lambda grad: calls.append(1))\n    optimizer =")
    text = text.replace("            optimizer.step()\n", "            optimizer.step()\n" + TABLES)
    text = text.replace("    dist.destroy", "    print('calls', len(calls), flush=True)\n    dist.destroy")
    script.write_text(text)
    ran = run_job(script, 2, tmp_path / "trace", tmp_path, BUDGET)
    assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    tables = [line.split(" ", 2)[2] for line in ran.output.splitlines() if line.startswith("tables 0")]
    assert len(tables) == 40 and tables.count("[None, None, None] 1") > 30, tables
    assert ran.output.count(f"calls {N_STEPS}") == 2


@pytest.fixture
def ended_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread ends windows that are left out, as the watching thread does, but hundreds of times a second.

    One in four is spared: on a busy machine none would last until its first call.
    """
    real = LeftOut.begin
    spared = {"now": False}
    chances = random.Random(5)

    def interrupt(windows: LeftOut) -> None:
        draws = random.Random(int(os.environ["RANK"]))
        while True:
            if windows.now and not spared["now"]:
                windows.end()
            time.sleep(draws.random() * 0.002)

    def begin(self: LeftOut, wrapper: Wrapper) -> None:
        if not any(thread.name == "interrupt" for thread in threading.enumerate()):
            sys.setswitchinterval(1e-6)
            threading.Thread(target=interrupt, args=(self,), name="interrupt", daemon=True).start()
        spared["now"] = chances.random() < 0.25
        real(self, wrapper)

    monkeypatch.setattr(LeftOut, "begin", begin)


@pytest.mark.parametrize("script", ["clean.py", "accumulation.py", "clipping.py", "mixed_precision.py"])
def test_a_window_may_be_ended_by_another_thread_at_any_time(script: str, seldom: None, ended_at_any_time: None,
                                                             tmp_path: Path) -> None:
    script_file = longer(script, tmp_path)
    for name, budget in (("some", BUDGET), ("whole", 0.0)):
        ran = run_job(script_file, 2, tmp_path / name, tmp_path, budget)
        assert ran.codes == [0, 0] and ran.troubles == [], ran.output
    report = lockstep.check(tmp_path / "some")
    assert report.ok, str(report)
    for rank in (0, 1):
        some, whole = (events_of(tmp_path / name, rank) for name in ("some", "whole"))
        samples = [[(event["at"], event["ids"]) for event in events if event["kind"] == "sample"]
                   for events in (some, whole)]
        assert samples[0] == samples[1] and len(samples[0]) > 100
        last = [max(event["seq"] for event in events if event["kind"] == "collective") for events in (some, whole)]
        assert last[0] == last[1]
        assert left_out(some) and not left_out(whole)


def test_the_report_says_how_many_steps_were_left_out(seldom: None, tmp_path: Path) -> None:
    run_job(longer("clean.py", tmp_path), 2, tmp_path / "trace", tmp_path, BUDGET)
    n_steps = [sum(event["kind"] == "step" for event in events_of(tmp_path / "trace", rank)) for rank in (0, 1)]
    notes = [note for note in lockstep.check(tmp_path / "trace").notes if "were checked in" in note]
    # Of the rank that looked most seldom; among equals of the first.
    assert len(notes) == 1 and f" of {N_STEPS} steps" in notes[0], notes
    assert f"in every step but {N_STEPS - n_steps[0]}, of which only samples" in notes[0], notes


STANDS_STILL = """
            if dist.get_rank() == 1 and step == 61:
                import time
                time.sleep(1000)
"""


def with_step(script: Path, more: str) -> Path:
    """Before each backward."""
    text = script.read_text()
    line = "            nn.functional.mse_loss(model(x), y).backward()\n"
    assert text.count(line) == 1
    text = text.replace(line, "            step += 1\n            loss = nn.functional.mse_loss(model(x), y)\n" + more +
                        "            loss.backward()\n")
    script.write_text(text.replace("    for epoch in", "    step = -1\n    for epoch in", 1))
    return script


def test_a_rank_that_stands_still_in_a_window_that_is_left_out_is_found(seldom: None, tmp_path: Path) -> None:
    script = with_step(longer("clean.py", tmp_path), STANDS_STILL)
    run_job(script, 2, tmp_path / "trace", tmp_path, BUDGET)
    report = lockstep.check(tmp_path / "trace")
    found = [finding for finding in report.findings if finding.law == "progress"]
    assert len(found) == 1, str(report)
    assert found[0].ranks == (0,) and found[0].step == ODD_STEP, str(report)
    assert "blocked forever in all_reduce" in str(report)
    posted = [event for event in events_of(tmp_path / "trace", 0) if event.get("phase") == "posted"]
    assert (posted[-1]["seq"], posted[-1]["at"][4]) == (found[0].seq, ODD_STEP)


def test_a_rank_that_raises_in_a_window_that_is_left_out_is_found(seldom: None, tmp_path: Path) -> None:
    script = with_step(longer("clean.py", tmp_path), """
            if dist.get_rank() == 1 and step == 61:
                raise RuntimeError("no such sample")
""")
    run_job(script, 2, tmp_path / "trace", tmp_path, BUDGET)
    report = lockstep.check(tmp_path / "trace")
    assert not report.ok and "no such sample" in str(report), str(report)
    assert all(finding.law == "progress" for finding in report.findings), str(report)


def test_a_call_too_many_in_windows_that_are_left_out_is_found(seldom: None, tmp_path: Path) -> None:
    script = with_step(longer("clean.py", tmp_path), """
            if dist.get_rank() == 1 and step == 61:
                dist.all_reduce(torch.zeros(3))
""")
    run_job(script, 2, tmp_path / "trace", tmp_path, BUDGET)
    report = lockstep.check(tmp_path / "trace")
    assert not report.ok, str(report)
    assert {finding.law for finding in report.findings} <= {"collectives-match", "progress"}, str(report)
    assert any(1 in (finding.ranks or ()) for finding in report.findings), str(report)


def test_a_job_whose_wrapper_is_not_alone_leaves_nothing_out(seldom: None, tmp_path: Path) -> None:
    ran = run_job(longer("gan.py", tmp_path), 2, tmp_path / "trace", tmp_path, BUDGET)
    assert ran.codes == [0, 0], ran.output
    assert not left_out(events_of(tmp_path / "trace", 0))


@pytest.mark.parametrize("name", list(CONFIGURATIONS))
def test_jobs_with_windows_that_are_left_out_are_equal_in_every_bit_to_unrecorded_ones(name: str, seldom: None,
                                                                                       tmp_path: Path) -> None:
    job = JOB.replace("range(6)", "range(72)")
    assert job != JOB
    given = PLAIN | CONFIGURATIONS[name]
    for key, value in given.items():
        job = job.replace("{" + key + "}", repr(value))
    script = tmp_path / "job.py"
    script.write_text(job)
    recorded = run_job(script, 2, tmp_path / "trace", tmp_path, BUDGET)
    plain = run_job(script, 2, None, tmp_path)
    assert recorded.codes == plain.codes == [0, 0], recorded.output + plain.output
    assert recorded.troubles == []
    # Calls of a program's own are always recorded: those inside a loss, those that reduce in DDP's place.
    leaves_out = given["wrapped"] and not given["exchange"] and not given["hook"]
    assert bool(left_out(events_of(tmp_path / "trace", 1))) == leaves_out
    results = [sorted(line for line in ran.output.splitlines() if line.startswith("rank ")) for ran in (recorded, plain)]
    assert len(results[0]) == 2 and results[0] == results[1]


# -- how many windows are left out

def learned(of_events: float, of_counts: float, window: float = 1.0) -> Looking:
    """Of a job whose windows last that long, half of them with so much of the processor's time, the others
    slowed down by whatever else runs."""
    one = Looking(BUDGET)
    for now in range(2 * LEARNING.stop):
        look = one.wants(now - 1, now)
        slower = 7.0 * window if now % 4 > 1 else 0.0
        one.note(look, window, slower + (of_counts if look is Look.COUNT else of_events))
    return one


def test_no_window_is_left_out_where_events_can_be_afforded() -> None:
    # 0.2 of 5 % of a window of one second.
    assert learned(0.5 + 0.0099, 0.5).often == 1
    assert learned(0.5, 0.6).often == 1  # Nothing but noise.


def test_as_many_windows_are_left_out_as_the_budget_asks_for() -> None:
    assert learned(0.5 + 0.0101, 0.5).often == 2
    assert learned(0.5 + 0.039, 0.5).often == 4
    assert learned(0.5 + 0.041, 0.5).often == 8
    assert learned(0.9, 0.1, window=0.1).often == MOST_LEFT_OUT


def test_windows_that_leave_events_are_those_of_a_power_of_two_and_of_its_multiples() -> None:
    one, other = Looking(BUDGET), Looking(BUDGET)
    one.often, other.often = 4, 16
    steps = [now for now in range(FIRST, AGAIN) if now not in LEARNING]
    eventful = [{now for now in steps if each.wants(now - 1, now) is not Look.COUNT} for each in (one, other)]
    assert eventful[1] < eventful[0]
    assert len(eventful[0]) == len([now for now in steps if now % 4 == 0])


@pytest.mark.parametrize(("every", "often"), [(16, 2), (64, 8), (256, 64), (4096, 1024), (4096, 1 << 20)])
def test_windows_until_the_next_that_may_leave_more_only_count(every: int, often: int) -> None:
    one = Looking(BUDGET)
    one.every, one.often = every, often
    draws = random.Random(every)
    before, n_quiet = 0, 0
    while before < 5 * AGAIN:
        now = before + draws.choice((1, 1, 1, 2, 0))  # A step may have no synchronising forward.
        quiet = now < one.quiet_until
        n_quiet += quiet
        look = one.wants(before, now)
        assert not quiet or look is Look.COUNT and now % AGAIN not in LEARNING
        before = now
    assert n_quiet > 4 * AGAIN * (1 - 2 / min(often, every, AGAIN)) * (1 - len(LEARNING) / AGAIN)


def test_every_other_window_is_left_out_to_learn_what_events_cost() -> None:
    one = Looking(BUDGET)
    looks = [one.wants(now - 1, now) for now in LEARNING]
    assert looks.count(Look.COUNT) == len(LEARNING) // 2 >= ENOUGH
    assert all(look is not Look.COUNT for now, look in zip(LEARNING, looks) if now % 2 == 0)


def live_findings(folder: Path) -> list[dict[str, Any]]:
    """What is certain of a folder once it has been read: a reading may stop before the end."""
    watch = watch_open(str(folder), [], "")
    said = [text for text in (watch_poll(watch, False) for _ in range(20)) if text]
    laws = json.loads(said[-1])["laws"] if said else []
    return [finding for law in laws for finding in law["findings"]]


def test_a_healthy_job_that_is_judged_while_it_runs_may_leave_windows_out(seldom: None, tmp_path: Path) -> None:
    ran = run_job(longer("clean.py", tmp_path), 2, tmp_path / "clean", tmp_path, BUDGET)
    assert ran.codes == [0, 0], ran.output
    assert live_findings(tmp_path / "clean") == []


@pytest.mark.parametrize("reason", ["delayed", "awaits", "alone"])
def test_no_window_is_left_out_of_which_more_than_counts_is_to_be_said(reason: str) -> None:
    wrapper = Wrapper.__new__(Wrapper)
    wrapper.training = wrapper.armed = True
    wrapper.delayed = wrapper.awaits = wrapper.alone = False
    assert wrapper.may_be_left_out()
    setattr(wrapper, reason, True)
    assert not wrapper.may_be_left_out()
