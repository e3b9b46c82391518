"""Every test of PyTorch's that passes on real Gloo passes on virtual ranks, and those that are skipped say the same."""
from __future__ import annotations

from typing import Any

import pytest
import pytorch_suite
from suite_test import FEW

SEEDS = range(20)


@pytest.mark.parametrize("ranks", pytorch_suite.SIZES)
def test_the_list_is_what_passes_on_gloo(ranks: int) -> None:
    found = pytorch_suite.passed(pytorch_suite.run("gloo", ranks)["ends"])
    assert found == pytorch_suite.listed()[1][ranks]


@pytest.mark.parametrize("ranks", pytorch_suite.SIZES)
def test_what_passes_on_gloo_passes_on_virtual_ranks(ranks: int) -> None:
    ends = pytorch_suite.run("virtual", ranks)["ends"]
    assert len(ends) > 280
    assert [name for name, end in ends.items() if end[0] == "failed"] == []
    assert pytorch_suite.passed(ends) == pytorch_suite.listed()[1][ranks]


def _few() -> list[str]:
    return [name for name in FEW if name in pytorch_suite.listed()[1][4]]


def _under(seed: int) -> dict[str, Any]:
    return pytorch_suite.run("virtual", 4, "--seed", str(seed), *_few())


def test_pytorchs_tests_pass_under_seeds_and_a_seed_repeats_its_schedule() -> None:
    found = [_under(seed) for seed in SEEDS]
    for seed, result in zip(SEEDS, found):
        assert {name: end for name, end in result["ends"].items() if end[0] != "passed"} == {}, seed
    again = _under(SEEDS[0])
    assert again["schedules"] == found[0]["schedules"]
    assert all(len({result["schedules"][name] for result in found}) > 1 for name in _few())


# What pretended GPUs cannot do, by what the test wants of them.
NEED_A_GPU = {
    "test_ddp_device": "tensors that say which GPU they are on",
    "test_ddp_logging_data_gpu": "device_ids in DDP's own report",
    "test_ddp_profiling_torch_profiler": "events of the profiler"}


def test_tests_for_gpus_pass_on_the_cpu() -> None:
    plain = pytorch_suite.run("virtual", 4)["ends"]
    ends = pytorch_suite.run("virtual", 4, "--device", "cpu-as-cuda")["ends"]
    assert pytorch_suite.passed(plain) <= pytorch_suite.passed(ends)
    assert {name for name, end in ends.items() if end[0] == "failed"} == NEED_A_GPU.keys()
    assert len(pytorch_suite.passed(ends) - pytorch_suite.passed(plain)) >= 99
