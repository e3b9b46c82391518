"""PyTorch's element types and reductions in the words of the coordinator."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from lockstep.enums import DType, ReduceOp
from lockstep.torch.recorder import DTYPES
from lockstep.virtual.connection import Refused

_OF_COMPLEX = {torch.complex64: DType.F32, torch.complex128: DType.F64}
_REDUCES = {"SUM": ReduceOp.SUM, "AVG": ReduceOp.AVG, "PRODUCT": ReduceOp.PRODUCT, "MIN": ReduceOp.MIN,
            "MAX": ReduceOp.MAX, "PREMUL_SUM": ReduceOp.PREMUL_SUM, "BAND": ReduceOp.BAND,
            "BOR": ReduceOp.BOR, "BXOR": ReduceOp.BXOR}
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_LINEAR = (ReduceOp.SUM, ReduceOp.AVG)


def elements_of(dtype: torch.dtype, computes: bool) -> tuple[DType, int]:
    """The type in which elements travel, and how many of it one element is.

    Args:
        computes: the operation adds or compares elements; otherwise any type may travel as bytes.

    Raises:
        RuntimeError: no backend computes with this type.
    """
    known = DTYPES.get(dtype)
    if known is not None:
        return known, 1
    if dtype in _OF_COMPLEX:
        return _OF_COMPLEX[dtype], 2
    if computes:
        raise RuntimeError(f"Invalid scalar type: no reduction of {dtype} (lockstep torchrun)")
    return DType.U8, torch.empty(0, dtype=dtype).element_size()


def reduce_of(op: Any, dtype: torch.dtype, backend: str) -> tuple[ReduceOp, float]:
    """The reduction and the factor of PREMUL_SUM.

    Raises:
        RuntimeError: the backend that the script asked for has no such reduction.
    """
    kind = getattr(op, "op", op)  # Newer versions keep the kind in an object.
    name = kind.name if hasattr(kind, "name") else str(kind).rpartition(".")[2]
    reduce = _REDUCES.get(name)
    if reduce is None:
        raise Refused(f"the reduction {name} cannot be simulated")
    if reduce in _BITWISE and (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"Cannot use ReduceOp.{name} with non-integral dtype")
    if dtype.is_complex and reduce not in _LINEAR:
        raise RuntimeError(f"all_reduce does not support {name} on complex tensors")
    if reduce is not ReduceOp.PREMUL_SUM:
        return reduce, 1.0
    if backend == "gloo":
        raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")
    return reduce, float(op.factor)


def default_reduce() -> Any:
    return dist.ReduceOp.SUM
