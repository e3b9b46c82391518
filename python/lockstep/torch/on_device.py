"""Where digests of tensors on GPUs are computed: there, unless LOCKSTEP_DIGESTS=host in the environment or this PyTorch
cannot say on which stream they are used."""
from __future__ import annotations

import os
from collections.abc import Callable

import torch

VARIABLE = "LOCKSTEP_DIGESTS"
HOST = "host"


def streams() -> Callable[[int], int] | str:
    """What a pen asks for the stream in use of a device, as CUDA's driver has it; or why it cannot be asked."""
    if os.environ.get(VARIABLE) == HOST:
        return f"{VARIABLE}={HOST}"
    stream: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if torch.version.cuda is None or stream is None:
        return f"PyTorch {torch.__version__} was built without CUDA"
    return stream
