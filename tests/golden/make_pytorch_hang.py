#!/usr/bin/env python3
"""Makes pytorch_hang/: the recording of a real job that hung, for the test of the wheel.

  PYTHONPATH=build/python build/torch-2.15.0/bin/python tests/golden/make_pytorch_hang.py

Two ranks of PyTorch 2.15 on Gloo train; before its third step rank 1 waits for a file that no one writes,
and `lockstep record` ends the job. Nothing of the folder is edited afterwards, except that the machine's
name for its clock is left out.
"""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).with_name("pytorch_hang")
JOB = '''
import os, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    while dist.get_rank() == 1 and step == 2 and not os.path.exists("features.bin"):
        time.sleep(0.1)
    optimizer.zero_grad()
    model(torch.randn(4, 3)).pow(2).mean().backward()
    optimizer.step()
'''


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "train.py").write_text(JOB.lstrip())
        subprocess.run([sys.executable, "-m", "lockstep", "record", "-o", str(FOLDER), "--stuck-after", "5", "--",
                        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"],
                       cwd=scratch, check=False)
    for path in FOLDER.glob("*.jsonl"):
        path.write_text(re.sub(r"monotonic [-0-9a-f]+", "monotonic golden", path.read_text()))


if __name__ == "__main__":
    main()
