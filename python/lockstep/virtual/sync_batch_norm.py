"""torch.nn.SyncBatchNorm on pretended GPUs. Its collectives are PyTorch's own (torch/nn/modules/_functions.py); what only GPUs
compute between them is computed here, channel by channel over all other dimensions:

    of each rank     mean m, inverse deviation 1 / sqrt(v + eps), with v the mean square of x - m
    of all ranks     n = sum n_i,  m = sum n_i m_i / n,  v = sum n_i (v_i + (m_i - m)^2) / n
    forward          y = (x - m) / sqrt(v + eps) * weight + bias
    backward         a = sum dy,  b = sum dy (x - m), over all ranks
                     dx = (dy - a / n - (x - m) b / n / (v + eps)) / sqrt(v + eps) * weight

Sums are taken in the order that the CPU takes them in, so the last bits are not a GPU's."""
from __future__ import annotations

import functools
from typing import Any

import torch


def install() -> None:
    for function in (batch_norm_stats, batch_norm_gather_stats_with_counts, batch_norm_elemt, batch_norm_backward_reduce,
                     batch_norm_backward_elemt):
        setattr(torch, function.__name__, function)
    # Each refuses a tensor that says it is on the CPU.
    torch.nn.parallel.DistributedDataParallel._passing_sync_batchnorm_handle = lambda self, module: None
    module: Any = torch.nn.SyncBatchNorm
    real = module.forward

    @functools.wraps(real)
    def forward(self: Any, x: Any) -> Any:
        name_of = torch._C._get_privateuse1_backend_name
        torch._C._get_privateuse1_backend_name = lambda: "cpu"
        try:
            return real(self, x)
        finally:
            torch._C._get_privateuse1_backend_name = name_of

    module.forward = forward


def _wide(x: Any) -> Any:
    """In which a GPU sums up."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _others(x: Any) -> list[int]:
    """All dimensions but the channels'."""
    return [0, *range(2, x.dim())]


def _as_channels(values: Any, x: Any) -> Any:
    return values.view([1, -1] + [1] * (x.dim() - 2))


def batch_norm_stats(x: Any, eps: float) -> tuple[Any, Any]:
    var, mean = torch.var_mean(_wide(x), _others(x), unbiased=False)
    return mean, (var + eps).rsqrt()


def batch_norm_gather_stats_with_counts(x: Any, means: Any, invstds: Any, running_mean: Any, running_var: Any, momentum: float,
                                        eps: float, counts: Any) -> tuple[Any, Any]:
    """Per rank: means, invstds (ranks x channels) and counts."""
    n, of_rank = counts.sum(), counts.view(-1, 1)
    mean = (of_rank * means).sum(0) / n
    var = (of_rank * (invstds.pow(-2) - eps + (means - mean).square())).sum(0) / n
    for running, seen in ((running_mean, mean), (running_var, var * (n / (n - 1)))):
        if running is not None:
            running.mul_(1 - momentum).add_(seen.to(running.dtype) * momentum)
    return mean, (var + eps).rsqrt()


def batch_norm_elemt(x: Any, weight: Any, bias: Any, mean: Any, invstd: Any, eps: float) -> Any:
    y = (_wide(x) - _as_channels(mean, x)) * _as_channels(invstd, x)
    if weight is not None:
        y = y * _as_channels(weight, x) + _as_channels(bias, x)
    return y.to(x.dtype)


def batch_norm_backward_reduce(dy: Any, x: Any, mean: Any, invstd: Any, weight: Any, *_: bool) -> tuple[Any, Any, Any, Any]:
    dy, x = _wide(dy), _wide(x)
    sum_dy, sum_dy_xmu = dy.sum(_others(x)), (dy * (x - _as_channels(mean, x))).sum(_others(x))
    as_weight = sum_dy.dtype if weight is None else weight.dtype
    return sum_dy, sum_dy_xmu, (sum_dy_xmu * invstd).to(as_weight), sum_dy.to(as_weight)


def batch_norm_backward_elemt(dy: Any, x: Any, mean: Any, invstd: Any, weight: Any, sum_dy: Any, sum_dy_xmu: Any, counts: Any) -> Any:
    n, scale = counts.sum(), invstd if weight is None else invstd * weight
    slope = sum_dy_xmu / n * invstd.square()
    dx = _wide(dy) - _as_channels(sum_dy / n, x) - (_wide(x) - _as_channels(mean, x)) * _as_channels(slope, x)
    return (dx * _as_channels(scale, x)).to(dy.dtype)
