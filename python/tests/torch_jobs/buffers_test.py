"""Which buffers of a wrapped model are watched, also those that come after it was wrapped."""
from __future__ import annotations

import gc
import weakref
from typing import Any

import torch
from lockstep.torch.buffers import Buffers, Registrations
from torch import nn


def watched(model: nn.Module, *ignored: str) -> tuple[Buffers, Registrations]:
    registrations = Registrations()
    return Buffers(model, set(ignored), registrations), registrations


def add(registrations: Registrations, module: Any, name: str, buffer: torch.Tensor | None, *, saved: bool = True) -> None:
    registrations.n += 1  # As the patch does.
    module.register_buffer(name, buffer, persistent=saved)


def test_all_buffers_that_the_model_has_are_watched_but_ignored_ones() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_buffer("kept", torch.zeros(1))
    model[0].register_buffer("cache", torch.zeros(1), persistent=False)
    model[0].register_buffer("own", torch.zeros(1))
    buffers, _ = watched(model, "0.own")
    assert list(buffers.now()) == ["0.kept", "0.cache"]


def test_a_buffer_that_is_bound_anew_is_the_one_that_is_looked_at() -> None:
    model = nn.BatchNorm1d(2)
    buffers, _ = watched(model)
    model.running_mean = torch.full((2,), 5.0)
    assert buffers.now()["running_mean"] is model.running_mean


def test_a_buffer_that_comes_later_is_watched_where_it_is_saved_with_the_model() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    buffers, registrations = watched(model, "0.own")
    assert buffers.now() == {}
    add(registrations, model[0], "mask", torch.ones(2, 2))
    add(registrations, model[0], "cache", torch.ones(2), saved=False)
    add(registrations, model[0], "own", torch.ones(2))
    add(registrations, model[0], "nothing", None)
    add(registrations, model, "top", torch.ones(1))
    assert sorted(buffers.now()) == ["0.mask", "top"]


def test_a_buffer_without_values_yet_is_left_alone() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    buffers, registrations = watched(model)
    add(registrations, model[0], "lazy", nn.UninitializedBuffer())
    assert buffers.now() == {}


def test_models_are_searched_again_only_after_a_registration() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    buffers, _ = watched(model)
    model[0].register_buffer("unseen", torch.ones(1))  # Not counted: nothing is patched here.
    assert buffers.now() == {}


def test_one_registration_is_one_search() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    buffers, registrations = watched(model)
    add(registrations, model[0], "mask", torch.ones(1))
    assert list(buffers.now()) == ["0.mask"]
    model[0].register_buffer("unseen", torch.ones(1))
    assert list(buffers.now()) == ["0.mask"]


def test_a_forgotten_model_is_not_searched() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    buffers, registrations = watched(model)
    buffers.forget()
    add(registrations, model[0], "mask", torch.ones(1))
    assert buffers.now() == {}


def test_a_forgotten_model_is_not_kept_alive() -> None:
    model = nn.BatchNorm1d(2)
    buffers, _ = watched(model)
    weak, running_mean = weakref.ref(model), weakref.ref(model.running_mean)
    buffers.forget()
    del model
    gc.collect()
    assert weak() is None
    assert running_mean() is None
    assert buffers.now() == {}
