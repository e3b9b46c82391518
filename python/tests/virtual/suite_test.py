"""PyTorch's own tests of torch.distributed pass on virtual ranks: a few of them here, all of them in ./dev soak."""
from __future__ import annotations

import pytorch_suite
import torch

# What is most likely to break: works, tags, any source, groups, timeouts, DDP, sparse and uneven calls.
FEW = """
test_DistributedDataParallelCPU test_DistributedDataParallelCPU_grad_is_view test_ddp_create_graph
test_all_gather_object_default_pg test_all_reduce_coalesced_sum test_all_reduce_sum test_all_reduce_sum_async
test_all_to_all_single_unequal_split test_barrier_timeout_group test_batch_isend_irecv_gloo test_broadcast_object_list
test_destroy_group test_get_future test_isend test_irecv test_monitored_barrier_gloo_subgroup
test_new_subgroups_by_enumeration test_send_recv_any_source test_send_recv_with_tag test_sparse_all_reduce_sum
""".split()


def test_the_list_is_of_this_pytorch() -> None:
    version, names = pytorch_suite.listed()
    assert torch.__version__.startswith(version), "write it again: pytorch_suite.py list"
    assert all(len(names[size]) >= 91 for size in pytorch_suite.SIZES)
    assert names[3] < names[4] and names[3] < names[8], "a larger world leaves out fewer tests"


def test_a_few_tests_of_pytorch_pass() -> None:
    _, names = pytorch_suite.listed()
    few = [name for name in FEW if name in names[4]]
    assert len(few) >= 15
    ends = pytorch_suite.run("virtual", 4, *few)["ends"]
    assert {name: end for name, end in ends.items() if end[0] != "passed"} == {}
    assert sorted(ends) == sorted(few)


def test_wrong_calls_fail_the_tests_of_pytorch() -> None:
    """The twin. test_all_reduce_sum would not do: it looks at no value."""
    faults = [word for call in range(2, 6) for word in ("--fault", f"double:1:{call}")]
    ends = pytorch_suite.run("virtual", 3, *faults, "test_all_reduce_coalesced_sum", "test_reduce_sum")["ends"]
    assert [end[0] for end in ends.values()] == ["failed"] * 2
