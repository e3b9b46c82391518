"""docs/conformance.md against the names of PyTorch's own tests, which its wheel ships in distributed_test.py."""
from __future__ import annotations

import re
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "conformance.md"
SHIPPED = Path(torch.__file__).parent / "testing" / "_internal" / "distributed" / "distributed_test.py"

# What a name must hold to be about data parallelism: the wrapper, and what is used around it.
ABOUT_DDP = re.compile("ddp|distributeddataparallel|join|hook|sync_?b(atch|n)|localsgd|averag|static_graph|unused|"
                       "verify_model|bucket|compute_limits|sampler|accumulate|sparse|no_sync|undefined_grad|"
                       "output_unused|isend_irecv_no_rank_zero", re.IGNORECASE)


def shipped() -> set[str]:
    return set(re.findall(r"def (test_\w+)", SHIPPED.read_text(encoding="utf-8")))


def named(page: str) -> list[str]:
    """Every test of PyTorch's that the page names, in the first column of its tables."""
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `test_")]
    return [name for row in rows for name in re.findall(r"`(test_\w+)`", row)]


def missing(names: set[str], page: str) -> list[str]:
    return sorted(name for name in names if ABOUT_DDP.search(name) and name not in named(page))


def test_every_shipped_test_about_ddp_is_mapped_or_has_a_reason() -> None:
    assert len(shipped()) > 250
    assert missing(shipped(), PAGE.read_text(encoding="utf-8")) == []


def test_no_test_is_named_twice() -> None:
    names = named(PAGE.read_text(encoding="utf-8"))
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_a_page_that_lacks_one_is_noticed() -> None:
    page = PAGE.read_text(encoding="utf-8").replace("`test_ddp_bucket_cap_mb_list`, ", "")
    assert missing(shipped(), page) == ["test_ddp_bucket_cap_mb_list"]
    # A mention in a sentence does not map it.
    assert missing(shipped(), page + "\n`test_ddp_bucket_cap_mb_list` is not here\n") == ["test_ddp_bucket_cap_mb_list"]
