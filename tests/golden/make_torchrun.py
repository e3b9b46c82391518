#!/usr/bin/env python3
"""Records what PyTorch's torchrun and torch.distributed.launch make of the command lines of
tests/real/launch/torchrun_cases.py: tests/golden/torchrun.json.

  build/torch-2.15.0/bin/python tests/golden/make_torchrun.py
"""
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "real" / "launch"))
import torchrun_cases as cases  # noqa: E402


def main():
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda case: cases.run(case, cases.theirs(case, sys.executable)), cases.CASES))
    text = json.dumps({"made by": "tests/golden/make_torchrun.py", "torch": torch.__version__,
                       "cases": dict(zip(map(cases.title, cases.CASES), found))}, indent=1, sort_keys=True)
    (ROOT / "tests" / "golden" / "torchrun.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
