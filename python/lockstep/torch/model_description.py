"""What a model is beside its tensors: the classes and options of its modules, in words."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MOST = 200  # Characters of one module.
BETWEEN = "; "  # Laws find by it which module differs.
_DEVICE = re.compile(r"\b(cuda|xpu|hpu|npu):\d+")
# Where in memory something lies, and what is meant to differ, such as a rank's part of a divided layer.
_OWN = re.compile(r"0x[0-9a-f]{4}|rank|shard|partition", re.IGNORECASE)


def descriptions(model: torch.nn.Module) -> str:
    """Those of all modules, by name: "1: ReLU(); 2: Dropout(p=0.1, inplace=False)". Modules that say what is each rank's
    own are left out."""
    found = []
    for name, module in model.named_modules():
        text = _description(module)
        if text:
            found.append(f"{name}: {text}" if name else text)
    return BETWEEN.join(found)


def _description(module: torch.nn.Module) -> str:
    try:
        options = module.extra_repr()
    except Exception:
        return ""
    text = " ".join(f"{type(module).__name__}({options})".split())[:MOST]
    return "" if _OWN.search(text) else _DEVICE.sub(r"\1", text).replace(BETWEEN, ", ")
