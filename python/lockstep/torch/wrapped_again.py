"""Models that hold a wrapper when they are wrapped."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.enums import LogKind
from lockstep.torch.recorder import say
from lockstep.torch.sites import site_here

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    import torch

    from lockstep.torch.recorder import Recorder
    from lockstep.torch.wrapping import Wrapper


def take_inside(wrappers: MutableMapping[Any, Wrapper], module: torch.nn.Module) -> list[Wrapper]:
    """Takes the wrappers in `module` out of `wrappers`: what is wrapped again belongs to the outer one, which reduces it once more."""
    inside = [wrappers.pop(part) for part in module.modules() if part in wrappers]
    for wrapper in inside:
        wrapper.forget()
    return inside


def remark_on(recorder: Recorder, inside: list[Wrapper], outer: Wrapper) -> None:
    """Says of each that reduces over the group of `outer` that this is for nothing. Over another one it may be meant: first
    within a node, then between nodes."""
    place = site_here()
    for inner in inside:
        if recorder.pen is None or inner.group != outer.group:
            continue
        where = f" at {place[0]}:{place[1]}" if place[0] else ""
        text = f"a module that is already wrapped is wrapped again{where}: each backward reduces its gradients twice"
        say(f"rank {recorder.rank}: {text}")
        recorder.pen.log(LogKind.WRAPPED_AGAIN, text)
