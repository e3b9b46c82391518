"""On pretended GPUs: the types and defaults by which older scripts ask for a device. torch.cuda.FloatTensor is the CPU's type,
torch.Generator("cuda") a generator of the CPU, and torch.set_default_device("cuda") chooses the CPU."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPES = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")


def of_cpu(kind: Any) -> Any:
    """What Tensor.type is given, and torch.set_default_tensor_type."""
    return kind.replace("torch.cuda.", "torch.") if isinstance(kind, str) else kind


def install(moved: Callable[[Any], Any]) -> None:
    """
    Args:
        moved: what a device becomes.
    """
    for name in _TYPES:
        setattr(torch.cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    _install_generator(moved)
    _change_given("set_default_device", moved)
    _change_given("set_default_tensor_type", of_cpu)


def _change_given(name: str, change: Callable[[Any], Any]) -> None:
    real = getattr(torch, name)

    @functools.wraps(real)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        real(*map(change, args), **{name: change(value) for name, value in kwargs.items()})

    setattr(torch, name, wrapped)


def _install_generator(moved: Callable[[Any], Any]) -> None:
    real: Any = torch.Generator

    class OfGenerators(type):
        def __instancecheck__(cls, thing: Any) -> bool:
            return isinstance(thing, real)

    class Generator(metaclass=OfGenerators):
        """Makes PyTorch's own, which have no subclasses."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return real(moved(device))

    torch.Generator = Generator  # type: ignore[assignment, misc]
