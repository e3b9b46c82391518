"""Reported bugs as scripts that a user of PyTorch would write: what must be noticed of each, and where.

The scripts are in python/tests/reported, named after the row of the zoo. `--fixed` mends one; `--annotated` says what only
its program knows. What is expected was written down from what each script does.
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import lockstep
from caught_test import Expected, fits

FOLDER = Path(__file__).resolve().parents[1] / "reported"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "programs.md"
BEGIN, END = "<!-- scripts: begin -->\n", "<!-- scripts: end -->\n"


@dataclass(frozen=True)
class Row:
    """One script."""

    plain: Expected | None  # Unannotated; None: no event can show it.
    annotated: Expected | None = None
    ranks: int = 2
    advice: str = ""  # What the report advises instead.
    strikes: tuple[Expected, ...] = ()  # What a run may show besides in which a race has done harm.

    @property
    def forms(self) -> list[tuple[str, ...]]:
        """The arguments with which it is broken."""
        return [()] if self.annotated is None else [(), ("--annotated",)]

    def is_harm(self, finding: lockstep.Finding) -> bool:
        """Whether the finding is one of what the race may do."""
        return any(fits(finding, harm) for harm in self.strikes)

    def expected(self, form: tuple[str, ...]) -> Expected | None:
        return self.annotated if form else self.plain


def _configuration(subject: str) -> Expected:
    return Expected("environment-bijective", "configuration-differs", ranks=(1,), field=subject)


ROWS = {
    "absent_gradients_skipped": Row(
        Expected("replicas-equal", "absent-gradients-skipped", 1, (1,), tensor="heads.0.weight", says="some ranks had none")),
    "async_no_wait": Row(Expected("in-flight-untouched", "overlap-race", ranks=(0, 1), field="read")),
    "avg_of_avgs": Row(None, Expected("metric-true", "prereduced-metric", field="loss")),
    "average_on_rank_0": Row(
        Expected("replicas-equal", "ema-drift", 3, (0,), tensor="average/0.weight"), ranks=3),
    "join_own_sum": Row(Expected("collectives-match", "join-extra-call", ranks=(0,), field="site")),
    "fsdp_parts_drawn_alike": Row(Expected("rng-scopes", "shards-alike", 0, (0, 1), tensor="initial shards")),
    "fsdp_clipped_apart": Row(Expected("norm-true", "clip-own-part", 0, (0, 1), field="factor")),
    "own_fsdp_clipped_apart": Row(Expected("norm-true", "clip-own-part", 0, (0, 1), field="factor")),
    "zero_clipped_apart": Row(Expected("norm-true", "clip-own-part", 0, (0, 1), field="factor")),
    # Each rank may be meant to have its own.
    "targets_drawn_apart": Row(None, advice="A-drawn-apart"),
    "features_drawn_apart": Row(None, advice="A-drawn-apart"),
    # Samples and noise may be shared on purpose.
    "order_of_its_own": Row(None, advice="A-rows-shared"),
    "place_in_the_node": Row(None, advice="A-rows-shared", ranks=4),
    "noise_of_one_seed": Row(None, advice="A-same-inputs"),
    # A rank may hold parameters of its own on purpose.
    "backbone_outside": Row(None, advice="A-unwrapped"),
    "buffer_overwritten_by_0": Row(
        None, Expected("buffers-policy", "buffer-overwritten-by-0", ranks=(1,), tensor="queue"),
        advice="A-buffer-replaced"),
    "activation_differs": Row(Expected("environment-bijective", "model-differs", ranks=(1,), field="modules",
                                       says="the model has `1: ReLU()` where the other ranks have `1: GELU(approximate='none')`")),
    # Ranks may wait for each other by a store, which leaves no event. Rank 1 finds an older file, or a part of one.
    "checkpoint_read_early": Row(None, advice="A-read-early", strikes=(
        Expected("replicas-equal", "read-before-commit", 3, (1,), says="rank 1 read different bytes from"),
        Expected("progress", "rank-crash", 3, missing=(1,), says="PytorchStreamReader failed"))),
    "clip_collective_set_differs": Row(Expected("collectives-match", "call-set-differs", 0, field="op")),
    "clip_norm_recounted": Row(Expected("norm-true", "clip-norm-recounted", 0, (0, 1))),
    # Whatever damages a momentum looks the same: there is no cause.
    "corrupt_replica_ckpt": Row(Expected("optimizer-equal", None, 2, (1,), tensor="weight.momentum_buffer"), ranks=3),
    "ema_drift": Row(None, Expected("replicas-equal", "ema-drift", 1, (1,), tensor="ema/1.running_mean")),
    # The first forward that follows on a batch is not the one that trains on it.
    "fakes_no_set_epoch": Row(Expected("epoch-reshuffled", "no-set-epoch", epoch=1, ranks=(0, 1))),
    "pseudo_labels_no_sampler": Row(Expected("samples-covered", "no-distributed-sampler", 0, (0, 1))),
    "batch_sampler_not_set": Row(Expected("epoch-reshuffled", "no-set-epoch", 0, (0, 1), epoch=1)),
    "epoch_of_a_stream_kept": Row(Expected("epoch-reshuffled", "persistent-worker-epoch", 0, (0, 1), epoch=1)),
    "file_order_differs": Row(Expected("samples-covered", "data-order-differs", 0, (1,), field="order"),
                              _configuration("files")),
    # What is in which place of a buffer only its program knows.
    "flattened_otherwise": Row(Expected("replicas-equal", None, 1, (1,), tensor="0.weight", says="the gradients the step used differed")),
    "grow_rng_clone": Row(Expected("rng-scopes", "rng-same-dropout", 0, (2, 3)), ranks=4),
    # An order of words may be one of work, too.
    "hash_order_ids": Row(None, _configuration("vocabulary"), advice="A-numbered-apart"),
    "head_made_late": Row(Expected("trained-set", "optimizer-stale", 0, (0, 1), tensor="2.weight", says="2 wrapped parameters that get one are in no optimizer")),
    "init_buffers_skipped": Row(
        Expected("init-equal", "init-buffers-skipped", 0, (1,), tensor="1.running_mean")),
    "key_set_differs": Row(Expected("collectives-match", "call-set-differs")),
    # Ranks may stop training a part of the model on purpose.
    "labels_numbered_apart": Row(None, advice="A-numbered-apart"),
    "layer_frozen_on_one_rank": Row(None, advice="A-contribution-ended"),
    "len_lies": Row(Expected("progress", "uneven-batches", 2, missing=(1,))),
    "lr_per_rank": Row(Expected("optimizer-equal", "lr-per-rank", 2, (1,))),
    "nongrad_param_drift": Row(
        Expected("replicas-equal", "nongrad-param-drift", ranks=(1,), tensor="target.weight")),
    "optimizer_stale": Row(Expected("trained-set", "optimizer-stale", 0, (0, 1), tensor="weight")),
    # Samples may be shared on purpose, once the ranks have begun by dividing them.
    "order_comes_apart": Row(None, advice="A-order-comes-apart"),
    # A program may keep what fits into memory.
    "batches_kept": Row(None, advice="A-batches-kept"),
    # Each rank may mean its number to be of its share.
    "evaluated_apart": Row(None, advice="A-evaluated-apart"),
    # All ranks go wrong alike.
    "nothing_loaded": Row(None, advice="A-nothing-loaded"),
    # Each rank may have statistics of its own on purpose.
    "loop_buffers_apart": Row(None, advice="A-buffers-apart"),
    # They may be meant to replace it.
    "written_over": Row(None, advice="A-written-over"),
    # They may write the same.
    "written_by_all": Row(None, advice="A-overwritten"),
    "wrapped_again": Row(None, advice="A-wrapped-again"),
    # Validation alone is wrong, and alike in each run.
    "result_dropped": Row(None, advice="A-result-dropped"),
    "results_overlap": Row(None, advice="A-results-overlap"),
    # Whether the repeats are in the sum, no event shows.
    "padded_evaluation": Row(None, ranks=3, advice="A-padding-counted"),
    "log_left_out": Row(Expected("collectives-match", "call-skipped", ranks=(1,), field="site")),
    "own_zero_last_not_sent": Row(Expected("replicas-equal", "", 1, tensor="2.bias", says="did not send it")),
    "param_replaced": Row(Expected("trained-set", "param-replaced", 1, tensor="weight (new)")),
    "parameters_listed_otherwise": Row(Expected("optimizer-equal", "lr-per-rank", 0, (1,))),
    "partial_window": Row(Expected("trained-set", "partial-window", 1)),
    "priorities_per_rank": Row(None, advice="A-order-comes-apart"),
    # A file that is not there leaves no event: its consequence is named.
    "resume_path_disagrees": Row(
        Expected("collectives-match", "dtype-redop-root-mismatch", field="dtype"),
        Expected("decisions-uniform", "resume-path-disagrees", ranks=(1,))),
    "rng_shared_skewed": Row(None, Expected("rng-scopes", "rng-not-shared", 2, (1,))),
    # Data sets that differ may be meant to.
    "sharded_no_sampler": Row(None, advice="A-same-losses"),
    "sharded_no_set_epoch": Row(Expected("epoch-reshuffled", "no-set-epoch", epoch=1, ranks=(0, 1))),
    "sharded_twice": Row(None, advice="A-divided-twice"),
    # On Gloo the two groups meet under one name, and not every rank gets as far as to say which it has made.
    "subgroup_asymmetric": Row(
        Expected("collectives-match", "subgroup-on-some-ranks", field="members", says="one of ranks 0, 3"), ranks=4),
    "two_optimizer_leak": Row(Expected("accumulated-once", "zero-grad-forgotten", 1, tensor="weight")),
    "two_wrappers_not_cleared": Row(Expected("accumulated-once", "zero-grad-forgotten", 1, (0, 1), tensor="0.weight")),
    "unfreeze_after_wrap": Row(Expected("trained-set", "unfreeze-after-wrap", 2, tensor="0.weight")),
    "unscaled_mid_window": Row(Expected("accumulated-once", None, 0, (0, 1), tensor="0.bias", field="unscaled")),
    "worker_seed_clones_ranks": Row(
        Expected("rng-scopes", "rng-same-dropout", 0, (0, 1), tensor="data set, torch")),
    # Batches may be repeated on purpose.
    "workers_repeat": Row(None, advice="A-batches-repeat"),
    # To the messages of a program's own only the program gives a meaning.
    "wrong_rank_order": Row(None, ranks=4),
    # Rows of longer standing.
    # Of a loss without a graph the backward is left out.
    "branch_no_graph": Row(Expected("progress", "nan-skip-one-rank", missing=(1,), ranks=(0,))),
    "checkpoint_decision_differs": Row(Expected("collectives-match", "rank0-only-collective", field="op")),
    # Ranks may have classes of their own.
    "contrastive_gather": Row(Expected("single-process-equal", "gather-own-share", 0, (0, 1), field="all_gather")),
    "class_weights_per_rank": Row(None, advice="A-losses-differ"),
    "cleared_on_one_rank": Row(
        Expected("replicas-equal", "cleared-before-step", 2, (1,), tensor="0.bias"), ranks=3),
    "clip_after_step": Row(Expected("norm-true", "clip-not-applied", 2, (0, 1), field="order", says="after the step")),
    "clip_before_backward": Row(
        Expected("norm-true", "clip-not-applied", 2, (0, 1), field="order", says="before the next backward")),
    "clip_before_unscale": Row(Expected("norm-true", "clip-before-unscale", 0, (0, 1))),
    # What a rank is about to make is known where it never gets out of making it.
    "group_without_the_last": Row(
        Expected("collectives-match", "subgroup-on-some-ranks", ranks=(0,), field="members",
                 says="rank 0 created one of ranks 0, 1 where"), ranks=3),
    "loop_cleared_on_rank_0": Row(Expected("gradient-mean", "zero-grad-forgotten", 2, (1,), tensor="0.bias")),
    "loop_without_set_epoch": Row(Expected("epoch-reshuffled", "no-set-epoch", 0, (0, 1), epoch=1)),
    # A rank may have its model from the others in a way that is not seen.
    "average_not_taken_back": Row(None, advice="A-never-steps"),
    "loop_steps_on_rank_0": Row(None, advice="A-never-steps"),
    # Any factor may be put on gradients on purpose.
    "divided_again": Row(None, ranks=3, advice="A-divided-again"),
    "loss_divided": Row(None, ranks=3, advice="A-divided-again"),
    "loss_divided_scaled": Row(None, ranks=3, advice="A-divided-again"),
    # What is to be divided by only the program knows.
    "divided_by_devices": Row(None, ranks=3, advice="A-other-divisor"),
    # Why a rank has ended early only a word could say.
    "early_stop_one_rank": Row(Expected("progress", "uneven-batches", missing=(1,), ranks=(0,))),
    "fsdp_same_dropout": Row(Expected("rng-scopes", "rng-same-dropout", 0, (0, 1), tensor="dropout")),
    "fsdp_scheduler_on_rank_0": Row(Expected("optimizer-equal", "optimizer-options-differ", 1, (1,), says="learning_rate is 0.1 on rank 1")),
    "gradients_broadcast": Row(
        Expected("gradient-mean", None, 1, (0,), tensor="0.weight", says="one rank's own gradient"), ranks=3),
    "gradients_reduced_to_one": Row(
        Expected("replicas-equal", None, 1, (1,), tensor="0.weight", says="the gradients the step used differed")),
    "never_wrapped": Row(None, advice="A-nothing-wrapped"),
    # Such hooks exist on purpose: it is advice.
    "frozen_on_one_rank": Row(
        Expected("buffers-policy", "batch-norm-uneven", 1, (1,), tensor="1.num_batches_tracked"), ranks=3),
    "hook_forgets_to_divide": Row(None, advice="A-summed-gradients"),
    "ignored_set_differs": Row(Expected("environment-bijective", "model-differs", ranks=(1,), field="schema")),
    "init_no_broadcast": Row(Expected("replicas-equal", "init-no-broadcast", 1, (1,), tensor="0.weight")),
    # A rank may hold parameters of its own on purpose, here too.
    "hooked_buckets_of_weights": Row(None, advice="A-unwrapped"),
    # On PyTorch's own ranks the call is over in time, as a rule.
    "hooked_last_unwaited": Row(Expected("in-flight-untouched", "overlap-race", ranks=(0, 1), field="read")),
    "left_out_of_the_loop": Row(None, ranks=3, advice="A-unwrapped"),
    "load_rank0_only": Row(Expected("init-equal", "load-rank0-only", 0, (1,), tensor="weight",
                                    says="since then only rank 0 has read a file")),
    "local_rank_as_rank": Row(Expected("samples-covered", "local-rank-as-rank", 0), ranks=4),
    "many_writers": Row(Expected("checkpoint-whole", "many-writers", ranks=(0, 1))),
    "masks_per_rank": Row(Expected("buffers-policy", "buffer-came-late", 2, (1,), tensor="0.weight_mask")),
    "model_differs": Row(Expected("environment-bijective", "model-differs", ranks=(1,), field="schema")),
    # Ranks may train different tasks on purpose.
    "scaled_on_one_rank": Row(None, advice="A-operations-differ"),
    "smoothing_differs": Row(None, advice="A-operations-differ"),
    "dropout_differs": Row(Expected("environment-bijective", "model-differs", ranks=(1,), field="modules",
                                    says="`1: Dropout(p=0.3, inplace=False)`")),
    "reduced_after_step": Row(Expected("replicas-equal", ranks=(1,))),
    "teacher_copied_early": Row(Expected("replicas-equal", "ema-drift", ranks=(1,), tensor="copy/0.weight")),
    "opt_state_root_only": Row(
        Expected("optimizer-equal", step=0, ranks=(1,), tensor="weight.momentum_buffer", field="state")),
    "order_swap": Row(Expected("collectives-match", field="count")),
    "parameter_reset_one_rank": Row(Expected("replicas-equal", "parameter-nudged", 2, (1,), tensor="weight")),
    "rank0_eval_wrapped": Row(Expected("collectives-match", "rank0-only-collective", 1, (0,))),
    "rank_crash": Row(Expected("progress", "rank-crash", 2, missing=(1,))),
    "rng_rank0_restored": Row(Expected("rng-scopes", "rng-same-dropout", 0, (0, 1))),
    "sampler_seed_differs": Row(Expected("epoch-reshuffled", "sampler-seed-differs", 0, (1,))),
    "scheduler_on_rank_0": Row(Expected("optimizer-equal", "lr-per-rank", 1, (1,), field="lr")),
    # A run may be stopped, or go on later.
    "schedule_of_one_process": Row(None, advice="A-schedule-too-long"),
    "schedule_per_micro_batch": Row(None, advice="A-schedule-ends-early"),
    "second_backward": Row(
        Expected("reduced-once", "last-micro-unsynced", 0, (0, 1, 2), tensor="0.weight"), ranks=3),
    "shape_mismatch_in_evaluation": Row(Expected("collectives-match", field="count")),
    "signal_stop_one_rank": Row(Expected("progress", "uneven-batches", missing=(1,), ranks=(0,))),
    # A program may mean to.
    # Ranks may wait for each other by a store, which leaves no event. Rank 1 finds a part of the file, or none.
    "statistics_read_early": Row(None, advice="A-read-early", strikes=(
        Expected("progress", "rank-crash", missing=(1,)),)),
    "stays_in_evaluation": Row(None, advice="A-stays-in-evaluation"),
    # DDP promises no more, and ranks may be meant to count alike.
    "tokens_weigh_unequally": Row(None, advice="A-uneven-means"),
    "boxes_per_rank": Row(None, advice="A-uneven-means"),
    # Targets may be classes.
    "labels_not_offset": Row(None, advice="A-targets-not-offset"),
    "sum_dropped": Row(Expected("single-process-equal", "collective-result-dropped", 0, (0, 1), field="all_reduce")),
    # Ranks may train different tasks.
    "summed_on_one_rank": Row(None, ranks=3, advice="A-losses-differ"),
    "two_comm_cycle": Row(Expected("progress", "two-comm-cycle")),
    "validated_in_training_mode": Row(
        Expected("buffers-policy", "batch-norm-uneven", 3, (0,), tensor="1.num_batches_tracked"), ranks=4),
    "weight_decay_on_rank_1": Row(
        Expected("optimizer-equal", "optimizer-options-differ", 0, (1,), field="weight_decay")),
}
BROKEN = [(name, form) for name, row in ROWS.items() for form in row.forms]


def advised(report: lockstep.Report) -> set[str]:
    """The names of what a report advises."""
    return {line.split(":")[0].split()[0] for law in report.laws for line in law.advice}


def table() -> str:
    """As the page has it."""
    lines = ["| bug | form | is noticed by | cause |", "|---|---|---|---|"]
    for name, form in BROKEN:
        expected = ROWS[name].expected(form)
        advice = ROWS[name].advice
        seen = f"{expected.law} | {expected.cause or ''}" if expected is not None else \
            f"advice {advice} | " if advice else "**nothing** | "
        lines.append(f"| `{name.replace('_', '-')}` | {'annotated' if form else 'unannotated'} | {seen} |")
    return "\n".join(lines) + "\n"
