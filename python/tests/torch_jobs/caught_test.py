"""Broken scripts are caught with law, step, rank and cause; healthy ones are silent. None is edited."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import lockstep
import pytest
from forked import SCRIPTS, Ran, Recorder, run_job
from soaking import with_ranks


@dataclass(frozen=True)
class Expected:
    """A finding that must be among those reported. None = not looked at."""

    law: str
    cause: str | None = None
    step: int | None = None
    ranks: tuple[int, ...] | None = None
    missing: tuple[int, ...] | None = None
    tensor: str | None = None
    site: str | None = None
    field: str | None = None
    epoch: int | None = None
    says: str = ""


def line_of(script: str, text: str, nth: int = 0) -> str:
    """"hang.py:28": the place of the nth line that contains the text."""
    lines = (SCRIPTS / script).read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if text in line]
    return f"{script}:{found[nth]}"


BROKEN = {
    "no_set_epoch.py": (2, [Expected("epoch-reshuffled", "no-set-epoch", 0, (0, 1))]),
    "overwritten.py": (2, [Expected("init-equal", "parameter-nudged", 0, (1,), tensor="2.weight")]),
    # What the first step reduces shows what the program reduces by itself: it is looked at from the second on.
    "averaged_flat_twice.py": (2, [Expected("gradient-mean", "double-average", 1, tensor="2.bias")]),
    "autocast_on_one_rank.py": (2, [Expected("decisions-uniform", "autocast-on-one-rank", 0, (1,), field="autocast",
                                             says="no autocast on rank 1, autocast to bf16 on rank 0")]),
    "averaged_twice.py": (3, [Expected("gradient-mean", "double-average", 1, tensor="0.weight",
                                       says="twice (/ 3); each rank's loss is a mean")]),
    "bypass.py": (2, [Expected("reduced-once", "bypass-wrapper", 0, (0, 1), tensor="0.weight"),
                      Expected("reduced-once", "bypass-wrapper", 0, (0, 1), tensor="2.bias")]),
    "wrong_lr.py": (2, [Expected("optimizer-equal", "lr-per-rank", 0, (1,)),
                        Expected("replicas-equal", "lr-per-rank", 0, (1,))]),
    "head_replaced.py": (2, [Expected("trained-set", "param-replaced", 0, (0, 1), tensor="head.weight (new)"),
                             Expected("replicas-equal", "param-replaced", 0, (1,), tensor="head.bias (new)")]),
    "hang.py": (3, [Expected("progress", "nan-skip-one-rank", missing=(0,), ranks=(1, 2),
                             site=line_of("hang.py", "loss.backward()"),
                             says="rank 0 ran a synchronising forward without its backward (step 2)")]),
    "mismatch.py": (3, [Expected("collectives-match", "dtype-redop-root-mismatch", 2, (1,),
                                 site=line_of("mismatch.py", "loss.backward()"))]),
    "branch_skips_wrapper.py": (2, [Expected("reduced-once", "bypass-wrapper", 1, (1,)),
                                    Expected("progress", missing=(1,), ranks=(0,))]),
    "buffers_not_broadcast.py": (2, [Expected("buffers-policy", "bn-local-eval", ranks=(1,))]),
    "clip_before_sync.py": (2, [Expected("norm-true", "clip-before-sync", 0, (0, 1))]),
    "clip_one_rank.py": (2, [Expected("replicas-equal", "clip-one-rank", 0, (1,))]),
    "cleared_before_step.py": (2, [Expected("trained-set", "cleared-before-step", 0, (0, 1))]),
    # An epoch has four steps.
    "eval_mode_one_rank.py": (2, [Expected("decisions-uniform", "eval-mode-one-rank", 4, (0,))]),
    "gather_function.py": (2, [Expected("single-process-equal", "gather-own-share", 0, (0, 1),
                                        site=line_of("gather_function.py", "dist.all_gather("))]),
    "gather_own_anchors.py": (3, [Expected("single-process-equal", "gather-own-share", 0, (0, 1, 2))]),
    "gather_own_share.py": (2, [Expected("single-process-equal", "gather-own-share", 0, (0, 1),
                                         site=line_of("gather_own_share.py", "dist.all_gather("))]),
    "groups_differ.py": (2, [Expected("optimizer-equal", "optimizer-options-differ", 0, (1,), tensor="2.bias", field="group",
                                      says="group 0 on rank 1, group 1 on rank 0")]),
    "inner_optimizer_alone.py": (2, [
        Expected("reduced-once", step=0, ranks=(0, 1), tensor="1.codes"),
        Expected("replicas-equal", step=0, tensor="1.codes")]),
    # Clipping by a norm of its own comes after what each rank has kept to itself.
    "last_micro_clipped.py": (2, [Expected("reduced-once", "last-micro-unsynced", 0, (0, 1)),
                                  Expected("replicas-equal", "last-micro-unsynced", 0, (1,))]),
    # Their weights by words: 4 and 30 of 68 on each of two ranks.
    "micro_means.py": (2, [Expected("gradient-mean", "token-weighted-mean", 0, tensor="0.weight",
                                    says="rank 0: 0.058824, 0.441176; rank 1: 0.058824, 0.441176")]),
    # Of 16 samples: 2, 6 and 1 on rank 0, 5 and 2 on rank 1.
    "uneven_windows.py": (2, [Expected("gradient-mean", "token-weighted-mean", 0, tensor="0.weight",
                                       says="rank 0: 0.125, 0.375, 0.0625; rank 1: 0.3125, 0.125")]),
    "local_sgd_denominator.py": (2, [Expected("outer-step", "outer-step-denominator", 3, says="x 1.333333")]),
    "local_sgd_not_averaged.py": (2, [Expected("reduced-once", step=0, ranks=(0, 1)),
                                      Expected("replicas-equal", step=0, ranks=(1,))]),
    "post_local_sgd_not_averaged.py": (2, [Expected("replicas-equal", step=2, ranks=(1,))]),
    "no_sampler.py": (2, [Expected("samples-covered", "no-distributed-sampler", 0, (0, 1))]),
    "no_sampler_noise.py": (2, [Expected("samples-covered", "no-distributed-sampler", 0, (0, 1), says="value by value")]),
    "no_sampler_own_seeds.py": (2, [Expected("samples-covered", "no-distributed-sampler", 0, (0, 1),
                                             says="48 of 48 samples are read by several ranks")]),
    "classes_of_a_set.py": (3, [Expected("samples-covered", "classes-differ", 0, (1, 2), field="classes")]),
    "files_unsorted.py": (3, [Expected("samples-covered", "data-order-differs", 0, (1, 2), field="order")]),
    "shards_overlap.py": (2, [Expected("samples-covered", "sampler-seed-differs", 0, (0, 1), field="duplicates")]),
    "batches_by_length.py": (2, [Expected("samples-covered", "sampler-seed-differs", 0, (0, 1), field="duplicates")]),
    # An epoch has five steps, of which rank 0 takes four.
    "join_momentum.py": (2, [Expected("optimizer-equal", step=5, ranks=(1,), tensor="0.weight.momentum_buffer"),
                             Expected("replicas-equal", step=5, ranks=(1,), tensor="0.weight")]),
    "no_sync_one_rank.py": (2, [Expected("replicas-equal", "no-sync-one-rank", 0, (1,)),
                                Expected("progress", "no-sync-one-rank", missing=(1,), ranks=(0,))]),
    "operation_differs.py": (2, [Expected(
        "collectives-match", field="op", ranks=(1,), site=line_of("operation_differs.py", "broadcast("))]),
    "parameter_nudged.py": (2, [Expected("replicas-equal", "parameter-nudged", 5, (1,), tensor="0.bias")]),
    # The first rank's split counts as the right one.
    "random_split_per_rank.py": (3, [Expected("samples-covered", "split-leak", 0, field="rows")]),
    "reduced_again.py": (2, [Expected("norm-true", "reduced-again", 0, (0, 1))]),
    "root_differs.py": (2, [Expected("collectives-match", "dtype-redop-root-mismatch", field="root",
                                     site=line_of("root_differs.py", "dist.broadcast("))]),
    # Steps and epochs are those of the second training.
    "second_training.py": (2, [Expected("epoch-reshuffled", "no-set-epoch", epoch=1, ranks=(0, 1)),
                               Expected("replicas-equal", step=5, ranks=(1,), tensor="0.bias")]),
    "sampler_of_more_ranks.py": (2, [Expected("samples-covered", "world-from-devices", 0, field="missing",
                                              says="shards it over 4 ranks, but there are 2")]),
    "same_dropout.py": (2, [Expected("rng-scopes", "rng-same-dropout", 0, (0, 1), tensor="dropout")]),
    "same_numpy_seed.py": (2, [Expected("rng-scopes", "worker-seed-clones", 1, (0,), tensor="data set, numpy.random",
                                        says="worker 1, epoch 0 repeats the draws of rank 0, worker 0, epoch 0")]),
    "same_worker_seeds.py": (2, [Expected("rng-scopes", "rng-same-dropout", 0, (0, 1),
                                          tensor="data set, numpy.random")]),
    # More tensors than a damaged memory changes.
    "set_by_first_batch.py": (2, [Expected("replicas-equal", "parameter-nudged", 0, (1,), tensor="1.scale",
                                           says="2 tensors differ"),
                                  Expected("replicas-equal", "parameter-nudged", 0, (1,), tensor="1.shift")]),
    "shape_differs.py": (2, [Expected("collectives-match", field="count", ranks=(1,),
                                      site=line_of("shape_differs.py", "dist.all_reduce("))]),
    # Step 4 is the one left out: step 5 is the first that both ranks have taken.
    "step_skipped_once.py": (2, [Expected("replicas-equal", "nan-skip-one-rank", 5, (1,)),
                                 Expected("optimizer-equal", "nan-skip-one-rank", field="step", ranks=(1,))]),
    "stream_not_divided.py": (2, [Expected("samples-covered", "iterable-unsharded", 0, (0, 1))]),
    "losses_summed_then_divided.py": (2, [Expected(
        "single-process-equal", "collective-outside-autograd", 0, (0, 1), site=line_of("losses_summed_then_divided.py", "dist.all_reduce("))]),
    "mean_in_a_function_divided.py": (2, [Expected(
        "single-process-equal", "collective-outside-autograd", 0, (0, 1), site=line_of("mean_in_a_function_divided.py", "dist.all_reduce("))]),
    "sum_outside_autograd.py": (3, [Expected(
        "single-process-equal", "collective-outside-autograd", 0, (0, 1, 2),
        site=line_of("sum_outside_autograd.py", "dist.all_reduce("), says="by a factor of 3, the number of ranks")]),
    "sum_against_max.py": (2, [Expected("collectives-match", "dtype-redop-root-mismatch", ranks=(1,),
                                        field="reduce")]),
    # A declared mean over samples: weights 0.8 and 0.2 on two ranks.
    "uneven_batch.py": (2, [Expected("gradient-mean", "token-weighted-mean", 0)]),
    "weighted_not_divided.py": (2, [Expected("samples-covered", "weighted-not-sharded", 0, (0, 1))]),
    "zero_grad_forgotten.py": (2, [Expected("accumulated-once", "zero-grad-forgotten", 1, (1,))]),
}
# What only the author of a job can say: DDP promises nothing about buffers that it does not broadcast.
MEANT = {"buffers_not_broadcast.py": "broadcast0"}
HEALTHY = (
    "accumulation.py", "accumulation_reduced.py", "accumulation_scheduled.py", "average.py", "averages_averaged.py",
    "batch_divided_by_hand.py", "batch_norm_eval.py", "batch_weighted.py", "batches_by_length_divided.py", "bucket_view.py", "checkpointing.py", "classes_sorted.py", "clean.py", "cleared_by_hand.py",
    "clipped_then_changed.py", "clipping.py", "compiled.py", "drawn_for_each.py", "draws_some.py", "early_stop.py", "files_sorted.py", "find_unused.py", "frozen.py", "gan.py", "head_averaged.py",
    "gather_begun_and_awaited.py", "gather_own_first.py", "gather_times_ranks.py", "gather_with_grad.py", "helper_ended.py", "inner_optimizer.py", "iterable.py", "join.py",
    "join_batch_norm.py", "join_counted.py", "join_epochs.py", "local_dropout.py", "local_sgd.py", "logged.py", "losses_averaged.py", "mean_in_a_function.py", "micro_weighted.py", "mixed_precision.py", "modules_beside.py", "monitored.py",
    "noise_by_sample.py", "norm_of_all.py", "own_data.py", "post_local_sgd.py", "own_shards.py", "random_split.py",
    "rank0_saves.py", "seeded_workers.py", "sequences_divided.py", "shards_padded.py", "sharpness_aware.py", "static_graph.py", "sub_groups.py", "sum_in_autograd.py", "sum_times_ranks.py",
    "two_models_one_optimizer.py", "two_trainings.py", "uneven_windows_weighted.py", "validation.py", "weight_averages.py", "weighted_divided.py", "workers.py",
    "zero_optimizer.py")
# Healthy without DistributedDataParallel, and a law that holds: sums of four squares on two ranks are divided by
# four, as a mean would be that was divided twice.
UNWRAPPED = {
    "averaged_accumulated.py": "reduced-once", "averaged_by_hand.py": "gradient-mean",
    "averaged_at_the_end_of_backward.py": "gradient-mean", "averaged_by_method.py": "reduced-once",
    "averaged_flat.py": "gradient-mean", "averaged_for_a_while.py": "gradient-mean",
    "averaged_sums.py": "reduced-once", "averaged_unused.py": "collectives-match",
    "outer_optimizer.py": "collectives-match", "reduced_to_one.py": "collectives-match",
    "reduced_to_owners.py": "collectives-match", "sharded_by_hand.py": "collectives-match"}
# Of them, those of which nothing is recognised: that nothing was checked is the truth.
NOT_RECOGNISED = ("outer_optimizer.py", "sharded_by_hand.py")
# Advice that a healthy script must not get.
UNDESERVED = ("A-batch-norm-uneven", "A-batches-kept", "A-batches-repeat", "A-buffer-replaced", "A-buffers-apart", "A-contribution-ended", "A-coverage", "A-divided-twice", "A-drawn-apart", "A-losses-differ",
              "A-divided-again", "A-never-steps", "A-nothing-wrapped", "A-numbered-apart", "A-operations-differ", "A-order-comes-apart", "A-other-divisor", "A-padding-counted", "A-read-early", "A-result-dropped", "A-results-overlap", "A-rows-shared", "A-same-gradients", "A-same-inputs", "A-same-losses", "A-samples-differ", "A-targets-not-offset", "A-schedule-ends-early", "A-schedule-too-long", "A-stays-in-evaluation", "A-uneven-means", "A-weighed-ranks",
              "A-unwrapped", "A-evaluated-apart", "A-nothing-loaded", "A-overwritten", "A-written-over", "A-wrapped-again")
LOSSY = ("hook_bf16.py", "hook_power_sgd.py")


def record(script: str, ranks: int, scratch: Path) -> tuple[Ran, lockstep.Report]:
    ran = run_job(SCRIPTS / script, ranks, scratch / "trace", scratch)
    assert ran.troubles == [], "the recorder could not do something"
    return ran, lockstep.check(scratch / "trace")


def fits(finding: lockstep.Finding, expected: Expected) -> bool:
    for name in ("law", "cause", "step", "epoch", "ranks", "missing", "tensor", "field"):
        wanted = getattr(expected, name)
        if wanted is not None and getattr(finding, name) != wanted:
            return False
    if expected.says not in finding.message:
        return False
    return expected.site is None or finding.site.endswith(expected.site) or \
        finding.other_site.endswith(expected.site)


@pytest.mark.parametrize("script", BROKEN)
def test_a_broken_script_is_caught(script: str, recorded: Recorder) -> None:
    ranks, expected = BROKEN[script]
    job = recorded(script, ranks)
    assert job.ran.troubles == [], "the recorder could not do something"
    report = lockstep.check(job.trace, buffers=MEANT.get(script, ""))
    assert not report.ok
    for wanted in expected:
        assert any(fits(finding, wanted) for finding in report.findings), f"{wanted}\n{report}"


@pytest.mark.parametrize(("script", "ranks"), with_ranks(HEALTHY))
def test_a_healthy_script_is_silent(script: str, ranks: int, tmp_path: Path) -> None:
    ran, report = record(script, ranks, tmp_path)
    assert ran.codes == [0] * ranks, ran.output
    assert report.ok, str(report)
    assert sum(law.verdict == "holds" for law in report.laws) >= 7, [law for law in report.laws]
    advice = [line for law in report.laws for line in law.advice]
    assert not any(line.startswith(UNDESERVED) for line in advice), advice


@pytest.mark.parametrize(("script", "ranks"), with_ranks(UNWRAPPED))
def test_a_healthy_script_without_a_wrapper_is_silent(script: str, ranks: int, tmp_path: Path) -> None:
    ran, report = record(script, ranks, tmp_path)
    assert ran.codes == [0] * ranks, ran.output
    assert report.ok, str(report)
    assert [law.verdict for law in report.laws if law.law == UNWRAPPED[script]] == ["holds"], str(report)
    advice = [line for law in report.laws for line in law.advice]
    unchecked = [line for line in advice if line.startswith("A-not-followed")]
    assert len(unchecked) == (script in NOT_RECOGNISED)
    assert str(report).count("\nadvice A-not-followed: ") == len(unchecked)
    advice = [line for line in advice if line not in unchecked]
    assert not any(line.startswith(UNDESERVED) for line in advice), advice


@pytest.mark.parametrize("script", LOSSY)
def test_a_lossy_hook_is_recorded_and_its_replicas_are_equal(script: str, tmp_path: Path) -> None:
    ran, report = record(script, 2, tmp_path)
    assert ran.codes == [0, 0], ran.output
    assert all('"effect":"rounded"' in path.read_text() for path in (tmp_path / "trace").glob("*.jsonl"))
    # The mean itself is rounded on purpose.
    assert {finding.law for finding in report.findings} <= {"gradient-mean"}, str(report)


def test_scripts_are_as_many_as_the_page_says() -> None:
    page = (SCRIPTS.parents[2] / "docs" / "pytorch.md").read_text()
    assert f"{len(BROKEN)} broken scripts" in page
    assert f"{len(HEALTHY) + len(UNWRAPPED)} healthy ones" in page
    assert {path.name for path in SCRIPTS.glob("*.py")} == {*BROKEN, *HEALTHY, *UNWRAPPED, *LOSSY}
