// Causes in the state of the model and its update: parameters, buffers, optimizers and modes.
#include <array>

#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep::laws {

namespace {

constexpr auto kModelCauses = std::to_array<CauseInfo>({
    // Parameters.
    {Cause::kEmaDrift,
     "ema-drift",
     "State that the program synchronises manually, such as a moving average or a teacher, was "
     "updated on some ranks only, from unequal values, or copied too early.",
     "Copy the model after wrapping it, and update the copy from values that all ranks share, "
     "buffers included. Or keep it on one rank and broadcast it before use.",
     "docs/laws.md#2-replicas-equal"},
    in_zoo(
        Cause::kIgnoredSetDiffers,
        "docs/zoo.md#ignored-set-differs",
        "The ranks had DDP ignore different parameters, so they do not synchronise the same set.",
        "Build the list for _set_params_and_buffers_to_ignore_for_model in the same way on every "
        "rank."),
    in_zoo(Cause::kInitBroadcastPartial,
           "docs/zoo.md#init-broadcast-partial",
           "Some tensors did not hold rank 0's values after wrapping, or were written during the "
           "initial broadcast.",
           "Do not touch parameters and buffers until the DDP constructor, or your own broadcast's "
           "wait(), has returned."),
    in_zoo(Cause::kInitNoBroadcast,
           "docs/zoo.md#init-no-broadcast",
           "Each rank started from its own initial values, and nothing broadcast rank 0's.",
           "Wrap the model in DDP, or broadcast every parameter and buffer from rank 0 before the "
           "first step."),
    in_zoo(Cause::kModelDiffers,
           "docs/zoo.md#model-differs",
           "The ranks built different models: names, shapes, dtypes, trainable parameters or "
           "modules differ, such as an activation or a dropout rate.",
           "Build the model from the same configuration on every rank, and freeze or resize the "
           "same layers on all ranks before wrapping."),
    {Cause::kNongradParamDrift,
     "nongrad-param-drift",
     "A parameter without a gradient, such as a target network's, was changed differently on each "
     "rank: DDP averages only gradients.",
     "Reduce the statistic that the parameter follows, or broadcast the parameter after each "
     "change.",
     "docs/laws.md#2-replicas-equal"},
    {Cause::kParamReplaced,
     "param-replaced",
     "The model got new parameters after wrapping, such as a new head, and the optimizer trains "
     "them: the wrapper does not reduce them.",
     "Move, convert, copy and change the model before you wrap it, or change its parameters in "
     "place (param.data.copy_). Otherwise wrap it again.",
     "docs/laws.md#24-trained-set"},
    in_zoo(Cause::kParameterNudged,
           "docs/zoo.md#parameter-nudged",
           "A parameter was equal on all ranks after wrapping and was written afterwards: on some "
           "ranks only, or with a different value on each.",
           "Change parameters before wrapping, including those that a first batch sets, or make "
           "the same change on every rank. If no line of the program writes them, test that rank's "
           "memory."),
    {Cause::kUnfreezeAfterWrap,
     "unfreeze-after-wrap",
     "A parameter was frozen at wrapping and is trained now, so DDP does not reduce its gradient.",
     "Set requires_grad before wrapping, and wrap again after changing it.",
     "docs/laws.md#24-trained-set"},
    // Buffers.
    {Cause::kBatchNormUneven,
     "batch-norm-uneven",
     "Batch norm ran in training mode more often on some ranks than on others, and every rank "
     "continues with rank 0's statistics.",
     "Call model.eval() before every evaluation, even where only rank 0 evaluates, and freeze the "
     "same layers on every rank.",
     "docs/laws.md#8-buffers-policy"},
    in_zoo(Cause::kBnLocalEval,
           "docs/zoo.md#bn-local-eval",
           "Each rank kept its own buffers, such as batch norm's running statistics, and an "
           "evaluation or a checkpoint used them although they differ.",
           "Broadcast rank 0's buffers before evaluating and saving, keep broadcast_buffers=True, "
           "or convert the model with nn.SyncBatchNorm.convert_sync_batchnorm."),
    {Cause::kBufferCameLate,
     "buffer-came-late",
     "A buffer was registered after DDP had wrapped a model without buffers, and DDP looks for "
     "buffers to broadcast only when it wraps.",
     "Register the buffer before wrapping, or give all ranks the same values, for example by a "
     "broadcast from rank 0.",
     "docs/laws.md#8-buffers-policy"},
    {Cause::kBufferOverwrittenBy0,
     "buffer-overwritten-by-0",
     "Each rank updated a shared buffer with its own values, and DDP's broadcast then overwrote "
     "them with rank 0's.",
     "Gather or average the values over all ranks before writing them, or exclude the buffer from "
     "the broadcast.",
     "docs/laws.md#8-buffers-policy"},
    {Cause::kBufferReassigned,
     "buffer-reassigned",
     "A buffer was replaced by a new tensor (`self.b = self.b + 1`), so DDP kept broadcasting the "
     "old one.",
     "Update buffers in place: `self.b += 1`, or `self.b.copy_(...)`.",
     "docs/laws.md#8-buffers-policy"},
    {Cause::kInitBuffersSkipped,
     "init-buffers-skipped",
     "Buffers differed when the model was wrapped, and broadcast_buffers=False also turned the "
     "initial broadcast off.",
     "Broadcast the buffers from rank 0 before wrapping, or load them on every rank.",
     "docs/zoo.md#init-buffers-skipped"},
    // Optimizers, schedules and the modes of a step.
    {Cause::kAutocastOnOneRank,
     "autocast-on-one-rank",
     "Some ranks trained under autocast and the others did not, or in a different 16-bit type: "
     "their shares of the mean are rounded differently.",
     "Choose autocast and its dtype from the job's configuration, not from each rank's device.",
     "docs/laws.md#20-decisions-uniform"},
    {Cause::kClearedBeforeStep,
     "cleared-before-step",
     "Gradients were cleared after the backward pass and before the optimizer step, so the step "
     "had none to use.",
     "Clear first, then call backward, then step: zero_grad() belongs before the backward pass or "
     "after step().",
     "docs/laws.md#24-trained-set"},
    {Cause::kEvalModeOneRank,
     "eval-mode-one-rank",
     "Some ranks trained in eval mode and the others did not: without dropout, and with batch "
     "norm's running statistics instead of the batch's.",
     "Call model.train() on every rank before each epoch, even where only rank 0 evaluates.",
     "docs/laws.md#20-decisions-uniform"},
    {Cause::kLrPerRank,
     "lr-per-rank",
     "The ranks stepped with different learning rates.",
     "Compute the learning rate from shared values only, and step the scheduler on every rank with "
     "the same (reduced) metric.",
     "docs/zoo.md#learning-rate-per-rank"},
    in_zoo(Cause::kLrStepsTimesWorld,
           "docs/zoo.md#lr-steps-times-world",
           "The scheduler advanced once per rank at every optimizer step, so the schedule ends too "
           "early by a factor of the world size.",
           "Call scheduler.step() once per optimizer step on each rank, and do not multiply its "
           "steps by the world size."),
    in_zoo(Cause::kNanSkipOneRank,
           "docs/zoo.md#nan-skip-one-rank",
           "Some ranks skipped a step that the others took, as `if loss.isnan(): continue` does.",
           "Decide together: all_reduce the flag with MAX, and skip on all ranks or on none."),
    {Cause::kOptimizerOptionsDiffer,
     "optimizer-options-differ",
     "The ranks created their optimizers or gradient scalers with different options, such as "
     "weight decay, betas, eps or growth_interval.",
     "Read these options from one configuration on all ranks, and load the same state on all of "
     "them.",
     "docs/laws.md#3-optimizer-equal"},
    {Cause::kOptimizerStale,
     "optimizer-stale",
     "The optimizer holds parameters other than those of the trained model, such as the ones from "
     "before it was copied, moved or wrapped.",
     "Create the optimizer after the model has its final parameters, from ddp.parameters(), and "
     "again whenever the model is replaced.",
     "docs/laws.md#24-trained-set"},
    {Cause::kOuterStepDenominator,
     "outer-step-denominator",
     "The sum over the ranks in an outer step was divided by a number other than the number of "
     "ranks.",
     "Divide once, by the size of the group that was summed over: dist.get_world_size(group).",
     "docs/laws.md#23-outer-step"},
    {Cause::kOuterStepReversed,
     "outer-step-reversed",
     "The outer optimizer stepped against the direction in which the ranks had moved.",
     "Give the outer optimizer start - mean as its gradient (an optimizer subtracts), not mean - "
     "start.",
     "docs/laws.md#23-outer-step"},
    in_zoo(Cause::kReplicaDrift,
           "docs/zoo.md#replica-drift",
           "Equal gradients and equal optimizer state gave different parameters: the ranks' "
           "arithmetic differs.",
           "Use the same hardware, libraries and deterministic kernels on every rank, or broadcast "
           "the parameters from time to time."),
    in_zoo(Cause::kScalerInfLocal,
           "docs/zoo.md#scaler-inf-local",
           "Only some ranks saw an overflow: they skipped the step and lowered their loss scale, "
           "and the others did not.",
           "Check for inf and nan after the reduction, or all_reduce found_inf with MAX; use "
           "ShardedGradScaler for sharded optimizers."),
    {Cause::kUpdateOverwritten,
     "update-overwritten",
     "The ranks divide the optimizer steps among them, but a rank other than the one that stepped "
     "a parameter broadcasts it: the parameter never trains.",
     "Broadcast each parameter from the rank that has it in its optimizer, and compute that rank "
     "with one function for both.",
     "docs/laws.md#24-trained-set"},
});

}  // namespace

std::span<const CauseInfo> model_causes() { return kModelCauses; }

}  // namespace lockstep::laws
