"""The buffers of a wrapped model. DDP broadcasts those that the model has as a forward begins, but looks for any only
once, as it wraps the model: where it finds none, it never broadcasts one that comes later, such as the mask of pruned
weights. These are watched as well, unless they are not saved with the model: they are caches."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.torch.recorder import Recorder


class Registrations:
    """Counts the buffers that modules are given."""

    def __init__(self) -> None:
        self.n = 0

    def install(self, recorder: Recorder) -> None:
        def make_register(real: Callable[..., Any]) -> Callable[..., Any]:
            def register_buffer(module: Any, *args: Any, **kwargs: Any) -> Any:
                self.n += 1
                return real(module, *args, **kwargs)
            return register_buffer

        recorder.patches.wrap(torch.nn.Module, "register_buffer", make_register)


class Buffers:
    """Those of one wrapper, by name."""

    def __init__(self, module: torch.nn.Module, ignored: set[str], registrations: Registrations) -> None:
        self._module: Callable[[], torch.nn.Module | None] = weakref.ref(module)
        self._ignored = ignored
        self._registrations = registrations
        self._n_registered = registrations.n
        self._named = {name: buffer for name, buffer in module.named_buffers() if name not in ignored}

    def now(self) -> dict[str, Any]:
        """As they are now: a program may bind others in their place, and DDP broadcasts those."""
        module = self._module()
        if module is None:
            return self._named
        if self._n_registered != self._registrations.n:
            self._n_registered = self._registrations.n
            self._named |= {name: buffer for name, buffer in _saved(module) if name not in self._ignored}
        if self._named:
            self._named |= {name: buffer for name, buffer in module.named_buffers() if name in self._named}
        return self._named

    def forget(self) -> None:
        """Watches nothing any more, and keeps nothing alive."""
        self._named = {}
        self._module = lambda: None


def _saved(model: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and not is_lazy(buffer) and name not in module._non_persistent_buffers_set:
                yield f"{prefix}.{name}" if prefix else name, buffer
