"""States that are loaded into a model that has none of their names."""
from __future__ import annotations

from pathlib import Path

import lockstep
import pytest
import torch
from forked import run_job
from torch import nn

from lockstep.torch.loading import Unloaded

PLACE = ("train.py", 22)


def body() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.module = body()


def names(module: nn.Module) -> list[str]:
    return list(module.state_dict())


def load(unloaded: Unloaded, module: nn.Module, given: list[str], place: tuple[str, int] = PLACE) -> None:
    """As PyTorch itself answers."""
    own = module.state_dict()
    result = module.load_state_dict({name: own.get(name, torch.zeros(1)) for name in given}, strict=False)
    unloaded.loaded(module, given, result, place)


def texts_after(*loads: tuple[nn.Module, list[str]]) -> list[str]:
    unloaded = Unloaded()
    for module, given in loads:
        load(unloaded, module, given)
    return unloaded.texts()


def test_names_that_lack_the_wrappers_prefix_are_named() -> None:
    wrapped = Wrapped()
    assert texts_after((wrapped, names(wrapped.module))) == [
        "load_state_dict(strict=False) at train.py:22 was given 4 names, such as '0.weight', none of which the model has; "
        "with 'module.' in front it has 4"]


def test_names_that_have_the_prefix_of_a_wrapper_are_named() -> None:
    wrapped = Wrapped()
    assert texts_after((wrapped.module, names(wrapped))) == [
        "load_state_dict(strict=False) at train.py:22 was given 4 names, such as 'module.0.weight', none of which the model "
        "has; without 'module.' in front it has 4"]


def test_names_of_another_model_are_named_without_advice() -> None:
    module = body()
    assert texts_after((module, ["a", "b"])) == [
        "load_state_dict(strict=False) at train.py:22 was given 2 names, such as 'a', none of which the model has"]


def test_one_name_that_is_the_models_is_enough() -> None:
    module = body()
    assert texts_after((module, ["0.bias", "head.weight"])) == []


def test_an_empty_state_and_a_model_without_any_are_nothing_to_speak_of() -> None:
    tanh = nn.Tanh()
    module = body()
    assert texts_after((module, []), (tanh, ["a"])) == []


def test_a_program_that_tries_other_names_next_has_loaded_them() -> None:
    wrapped = Wrapped()
    assert texts_after((wrapped.module, names(wrapped)), (wrapped.module, names(wrapped.module))) == []
    assert texts_after((wrapped.module, names(wrapped)), (wrapped, names(wrapped))) == []


def test_a_model_that_is_gone_at_the_end_is_spoken_of() -> None:
    unloaded = Unloaded()
    load(unloaded, body(), ["a"])
    for _ in range(100):  # Some are given its place in memory.
        module = body()
        load(unloaded, module, names(module))
    assert len(unloaded.texts()) == 1


def test_a_place_that_is_not_known_is_left_out() -> None:
    unloaded, module = Unloaded(), body()
    load(unloaded, module, ["a"], ("", 0))
    assert unloaded.texts() == ["load_state_dict(strict=False) was given one name, 'a', none of which the model has"]


JOB = '''
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(1)
pretrained = nn.Sequential(nn.Linear(4, 8), nn.Tanh()).state_dict()
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
{target}.load_state_dict(pretrained, strict=False)
model(torch.randn(3, 4)).mean().backward()
dist.destroy_process_group()
'''


@pytest.mark.parametrize(("target", "n_said"), [("model", 2), ("model.module", 0)])
def test_every_rank_says_at_its_end_that_nothing_was_loaded(target: str, n_said: int, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB.replace("{target}", target))
    ran = run_job(script, 2, tmp_path / "trace", tmp_path)
    assert ran.codes == [0, 0], ran.output
    said = [line for line in ran.output.splitlines() if "nothing was loaded" in line]
    assert len(said) == n_said, ran.output
    for rank, line in enumerate(sorted(said)):
        assert line.startswith(f"lockstep: rank {rank}: load_state_dict(strict=False) at ")
        assert line.endswith("job.py:11 was given 2 names, such as '0.weight', none of which the model has; "
                             "with 'module.' in front it has 2: nothing was loaded")
    advice = [text for law in lockstep.check(tmp_path / "trace").laws for text in law.advice]
    assert len(advice) == (1 if n_said else 0)
    for text in advice:
        assert text.startswith("A-nothing-loaded: ranks 0, 1: load_state_dict(strict=False) at "), text


def test_a_model_is_not_asked_for_its_state() -> None:
    """A sharded model would gather it."""
    class Gathering(nn.Linear):
        def state_dict(self, *args: object, **kwargs: object) -> dict[str, torch.Tensor]:
            raise AssertionError("a collective")

    unloaded, module = Unloaded(), Gathering(2, 3)
    unloaded.loaded(module, ["a"], module.load_state_dict({"a": torch.zeros(1)}, strict=False), PLACE)
    assert len(unloaded.texts()) == 1
