"""Scripts in the styles in which people publish them run unedited on virtual ranks, or are refused by name.

Those that need a library besides PyTorch are in python/tests/soak."""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from lockstep.virtual import launch, options
from virtual_job import lines_of, prepare, printed, run_virtual

PUBLISHED = Path(__file__).parent / "published"
CUDA = ("--device", "cpu-as-cuda")


@dataclass(frozen=True)
class Way:
    given: tuple[str, ...] = ()
    alone: bool = False  # Starts its ranks itself.
    refused: str = ""  # In these words; "": it runs.
    law: str = ""  # That the style breaks, for all its popularity.


SCRIPTS = {
    "elastic_ddp": Way(),
    "snapshot_trainer": Way((*CUDA, "--max-restarts", "1")),
    "spawn_ddp": Way(alone=True),
    "process_style": Way(alone=True),
    "imagenet": Way(CUDA),
    "amp_clip": Way(CUDA),
    "fsdp1": Way(),
    "fsdp2": Way(),
    "tensor_parallel": Way(),
    "nano_gpt": Way(CUDA),
    "workers": Way(law="rng-scopes"),  # All ranks seed the generator alike, and so their workers.
    "join": Way(),
    "zero": Way(),
    "gan": Way(),
    "checkpoint_dcp": Way(),
    "contrastive": Way(),
    "power_sgd": Way(),
    "sync_batch_norm": Way(CUDA),
    "data_parallel": Way(CUDA, refused="DataParallel is not simulated: --device cpu-as-cuda runs on the CPU"),
    "cuda_graph": Way(CUDA, refused="torch.cuda.CUDAGraph is not simulated: --device cpu-as-cuda runs on the CPU"),
    "parameter_server": Way(refused="torch.distributed.rpc is not simulated: its messages do not go through process groups"),
    "without_gpu_given": Way(refused="--device cpu-as-cuda runs scripts for GPUs there"),
}


def test_every_published_script_is_run() -> None:
    assert {path.stem for path in PUBLISHED.glob("*.py")} == SCRIPTS.keys()
    assert len(SCRIPTS) >= 20


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_published_script_runs_or_is_refused_by_name(name: str, tmp_path: Path) -> None:
    way = SCRIPTS[name]
    script = PUBLISHED / f"{name}.py"
    if way.alone:
        prepare()
        given = options.parse(["--arena-mb", "512", *way.given, str(script), str(tmp_path)], alone=True)
        outcome = launch.run(given, given.seed, "", quiet=True)
    else:
        outcome = run_virtual(script, 2, *way.given, arguments=(str(tmp_path),))
    if way.refused:
        assert outcome.found["outcome"] == "failed"
        assert way.refused in printed(outcome), printed(outcome)
        assert not lines_of(outcome, "done")
        return
    assert outcome.found["outcome"] == "ok", printed(outcome) + outcome.found["error"] + outcome.found["wait_for"]
    assert outcome.report is not None
    assert {finding.law for finding in outcome.report.findings} == {way.law} - {""}, str(outcome.report)
    assert sorted(re.findall(r"done \d", printed(outcome))) == ["done 0", "done 1"]  # Processes may share a line.
    assert lines_of(outcome, "resumed") == ["resumed 2"] * (2 * (name == "snapshot_trainer"))
