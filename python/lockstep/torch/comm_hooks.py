"""What the communication hooks that PyTorch ships make of gradients."""
from __future__ import annotations

from typing import Any

from lockstep.enums import HookEffect

_EFFECTS = {
    "allreduce_hook": HookEffect.MEAN, "ALLREDUCE": HookEffect.MEAN,
    "fp16_compress_hook": HookEffect.ROUNDED, "FP16_COMPRESS": HookEffect.ROUNDED,
    "bf16_compress_hook": HookEffect.ROUNDED, "powerSGD_hook": HookEffect.ROUNDED,
    "batched_powerSGD_hook": HookEffect.ROUNDED, "quantization_pertensor_hook": HookEffect.ROUNDED,
    "quantization_perchannel_hook": HookEffect.ROUNDED,
    "_reducer_allreduce_and_upcast_hook": HookEffect.ROUNDED}
_WRAPPERS = ("fp16_compress_wrapper_hook", "bf16_compress_wrapper_hook")
_SHIPPED = "torch.distributed.algorithms.ddp_comm_hooks."


def lets_train_alone(hook: Any) -> bool:
    """A shipped hook that averages over some of the ranks: parameters are averaged over all of them now and then."""
    return getattr(hook, "__name__", "") == "post_localSGD_hook" and hook.__module__.startswith(_SHIPPED)


def effect_of(hook: Any) -> HookEffect:
    """Of a hook that PyTorch does not ship nothing is known: something else, on purpose."""
    name = getattr(hook, "__name__", str(hook).rpartition(".")[2])
    if name in _WRAPPERS:
        inner = (cell.cell_contents for cell in hook.__closure__ or ())
        effects = [effect_of(one) for one in inner if callable(one)]
        return max([HookEffect.ROUNDED, *effects])
    module = getattr(hook, "__module__", "") or ""
    if not module.startswith(_SHIPPED) and "BuiltinCommHookType" not in str(type(hook)):
        return HookEffect.OTHER
    return _EFFECTS.get(name, HookEffect.OTHER)
