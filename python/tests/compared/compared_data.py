"""The data of the jobs that are compared with scenarios: the files that the scenarios read."""
from __future__ import annotations

from pathlib import Path

import torch

FILES = Path(__file__).resolve().parents[3] / "scenarios" / "data"


def digits() -> torch.utils.data.TensorDataset:
    """64 pixels from 0 to 1, and which digit they show."""
    rows = [[int(cell) for cell in line.split(",")] for line in (FILES / "digits.csv").read_text().splitlines()]
    table = torch.tensor(rows)
    return torch.utils.data.TensorDataset(table[:, :-1].float() / 16, table[:, -1])


def windows(size: int) -> tuple[torch.utils.data.TensorDataset, int]:
    """Each window of a text with the characters that follow, as their ranks among its bytes; and how many there are."""
    text = (FILES / "tide_tables.txt").read_bytes()
    ranks = {byte: rank for rank, byte in enumerate(sorted(set(text)))}
    tokens = torch.tensor([ranks[byte] for byte in text])
    x = tokens.unfold(0, size, 1)[:-1]
    return torch.utils.data.TensorDataset(x, tokens.unfold(0, size, 1)[1:]), len(ranks)
