"""Convolutions in float16 on the CPU: its library has none for their gradients but a plain loop, two hundred times as slow as
float32's. A GPU multiplies float16 exactly, adds up in float32 and rounds the sum, which is a convolution in float32 of what was
rounded before."""
from __future__ import annotations

from typing import Any

import torch

_CAST = (torch.float16, torch.bfloat16, torch.float32)  # By autocast.
NAMES = frozenset(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3))


def convolve(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `function(*args, **kwargs)` returns, where its tensors are, or would be cast to, float16; else the call itself."""
    casts = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.float16
    given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    if not casts and not all(each.dtype == torch.float16 for each in given):
        return function(*args, **kwargs)

    def rounded(value: Any) -> Any:
        return value.to(torch.float16).float() if isinstance(value, torch.Tensor) and value.dtype in _CAST else value

    with torch.autocast("cpu", enabled=False):
        result = function(*map(rounded, args), **{name: rounded(value) for name, value in kwargs.items()})
    return result.to(torch.float16) if result.dtype == torch.float32 else result
