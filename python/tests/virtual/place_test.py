"""The place that a rank is given, and when its groups end: virtual ranks raise what PyTorch's raise, live."""
from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from virtual_job import lines_of, run_virtual

WRONG = '''
import os, sys
import torch.distributed as dist
try:
    {change}
    dist.init_process_group("gloo")
except Exception as error:
    print("raised", type(error).__name__, error)
else:
    print("raised nothing")
'''
# By what PyTorch says of it, which names no variable where a number is none.
CHANGES = {
    'os.environ["WORLD_SIZE"] = "two"': "WORLD_SIZE",
    'os.environ["RANK"] = "0.0"': "RANK",
    'os.environ["MASTER_PORT"] = "http"': "MASTER_PORT",
    'os.environ["MASTER_PORT"] = ""': "MASTER_PORT",
    'os.environ["MASTER_PORT"] = 9999': "",
    'del os.environ["WORLD_SIZE"]': "WORLD_SIZE",
    'del os.environ["RANK"]': "RANK",
    'del os.environ["MASTER_ADDR"]': "MASTER_ADDR",
    'del os.environ["MASTER_PORT"]': "MASTER_PORT",
}
RULES = '''
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def show(name, call):
    try:
        found = repr(call())
    except Exception as error:
        found = f"{type(error).__name__} {error}"
    print("rule", dist.get_rank() if dist.is_initialized() else "-", name, "|", found)


def init():
    dist.init_process_group("gloo")


show("sum before", lambda: dist.all_reduce(torch.ones(1)))
show("rank before", dist.get_rank)
show("world before", dist.get_world_size)
show("backend before", dist.get_backend)
show("initialized before", dist.is_initialized)
show("destroy before", dist.destroy_process_group)
show("init", init)
show("init again", init)
show("rank", dist.get_rank)
show("world", dist.get_world_size)
show("backend", dist.get_backend)
group = dist.new_group([0, 1])
show("destroy a group", lambda: dist.destroy_process_group(group))
show("destroy a group again", lambda: dist.destroy_process_group(group))
dist.barrier()
show("destroy", dist.destroy_process_group)
show("destroy again", dist.destroy_process_group)
show("initialized after", dist.is_initialized)
show("sum after", lambda: dist.all_reduce(torch.ones(1)))
show("barrier after", dist.barrier)
show("rank after", dist.get_rank)
show("wrap after", lambda: DistributedDataParallel(torch.nn.Linear(1, 1)))
'''


def on_processes(script: Path, ranks: int, beginning: str) -> list[str]:
    """The same lines of PyTorch's own ranks, each a process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    started = [subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
                                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for rank in range(ranks)]
    texts = [one.communicate(timeout=120)[0] for one in started]
    return sorted(line for text in texts for line in text.splitlines() if line.startswith(beginning))


@pytest.mark.parametrize("change", CHANGES)
def test_a_wrong_variable_raises_what_pytorch_raises_and_is_named(change: str, tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(WRONG.format(change=change), encoding="utf-8")
    [found] = lines_of(run_virtual(script, 1), "raised")
    [wanted] = on_processes(script, 1, "raised")
    assert wanted != "raised nothing"
    assert found.startswith(wanted), (found, wanted)
    assert CHANGES[change] in found


def test_another_rank_or_world_size_is_refused_with_both_places(tmp_path: Path) -> None:
    for change, shown in (('os.environ["RANK"] = "-1"', "rank -1 of 1 in virtual rank 0 of 1"),
                          ('os.environ["RANK"] = "7"', "rank 7 of 1 in virtual rank 0 of 1"),
                          ('os.environ["WORLD_SIZE"] = "2"', "rank 0 of 2 in virtual rank 0 of 1")):
        script = tmp_path / "wrong.py"
        script.write_text(WRONG.format(change=change), encoding="utf-8")
        [found] = lines_of(run_virtual(script, 1), "raised")
        assert found.startswith("raised Refused") and shown in found


def test_groups_begin_and_end_by_the_rules_of_pytorch(tmp_path: Path) -> None:
    script = tmp_path / "rules.py"
    script.write_text(RULES, encoding="utf-8")
    found = lines_of(run_virtual(script, 2), "rule")
    assert found == on_processes(script, 2, "rule")
    assert len(found) == 40
    assert sum("Error" in line for line in found) == 24
