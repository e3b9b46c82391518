#!/usr/bin/env python3
"""Learning rates of torch's CosineAnnealingLR: tests/golden/cosine.txt.

Usage: python3 tests/golden/make_cosine.py > tests/golden/cosine.txt
"""
import struct
import warnings

import torch

warnings.simplefilter("ignore")
print(f"# made by tests/golden/make_cosine.py with torch {torch.__version__}")
print("# cosine lr t_max eta_min : 201 rates as bits of doubles")
for lr, t_max, eta_min in [(0.1, 50, 0.0), (0.1, 33, 0.001), (0.1, 500, 0.0), (1e-4, 30, 1e-6)]:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, t_max, eta_min)
    rates = []
    for _ in range(201):
        rates.append(struct.pack(">d", optimizer.param_groups[0]["lr"]).hex())
        optimizer.step()
        scheduler.step()
    print(f"cosine {lr!r} {t_max} {eta_min!r} :", *rates)
