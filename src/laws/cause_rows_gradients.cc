// Causes in what gradients hold: reductions, accumulation, losses and clipping.
#include <array>

#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep::laws {

namespace {

constexpr auto kGradientsCauses = std::to_array<CauseInfo>({
    // What a reduction sums.
    {Cause::kAbsentGradientsSkipped,
     "absent-gradients-skipped",
     "The program all-reduced gradients one at a time and skipped missing ones, so ranks paired "
     "gradients of different parameters.",
     "All-reduce the same parameters in the same order on all ranks, with zeros where a rank has "
     "no gradient.",
     "docs/laws.md#2-replicas-equal"},
    in_zoo(Cause::kBf16HopRounding,
           "docs/zoo.md#bf16-hop-rounding",
           "Gradients were summed in bfloat16, and the sum was rounded again on every rank that it "
           "passed.",
           "Reduce in float32 (no bf16_compress_hook; reduce_dtype=torch.float32 in mixed "
           "precision), and cast afterwards."),
    in_zoo(Cause::kBranchNoGraph,
           "docs/zoo.md#branch-no-graph",
           "One rank computed its loss without some parameters that the others used, so their "
           "buckets never became ready on that rank.",
           "Make every rank's loss depend on the same parameters (add `0 * unused.sum()` in the "
           "empty case), or pass find_unused_parameters=True."),
    in_zoo(Cause::kBucketOrderDiffers,
           "docs/zoo.md#bucket-order-differs",
           "The ranks packed their parameters into buckets in different orders, so gradients of "
           "different parameters were summed.",
           "Register parameters in the same order on every rank, and let DDP build the buckets "
           "instead of reducing gradients as they arrive."),
    in_zoo(Cause::kBypassWrapper,
           "docs/zoo.md#bypass-wrapper",
           "The forward went to the inner module (`ddp.module(x)`) instead of the DDP wrapper, so "
           "nothing averaged the gradients.",
           "Call the wrapper for every training forward: `ddp(x)`, not `ddp.module(x)` or a "
           "reference from before wrapping."),
    in_zoo(Cause::kDoubleAverage,
           "docs/zoo.md#double-average",
           "Gradients were divided by the number of ranks twice.",
           "Divide by the number of ranks once: DDP already averages gradients, and an optimizer "
           "may average them, too."),
    in_zoo(Cause::kFp16SumOverflow,
           "docs/zoo.md#fp16-sum-overflow",
           "The sum of finite gradients overflowed in float16 before it was divided.",
           "Divide before the sum, reduce in float32 instead of float16, or lower the loss scale."),
    {Cause::kReducedAgain,
     "reduced-again",
     "Gradients that the wrapper had averaged were summed over the ranks again, so each step was "
     "too large by the number of ranks.",
     "Leave the reduction to DDP: do not all_reduce .grad after a backward pass through the "
     "wrapper.",
     "docs/laws.md#22-norm-true"},
    in_zoo(Cause::kSumVsMean,
           "docs/zoo.md#sum-vs-mean",
           "Gradients were summed where the job declared a mean, so they are too large by a factor "
           "such as the world size.",
           "Divide by dist.get_world_size() after all_reduce(SUM), or use ReduceOp.AVG; with DDP, "
           "use a loss that averages."),
    in_zoo(Cause::kUnusedBucketUnfired,
           "docs/zoo.md#unused-bucket-unfired",
           "A parameter that got no gradient kept its bucket from being reduced, so used "
           "parameters were not averaged either.",
           "Pass find_unused_parameters=True, or make every parameter take part in the loss."),
    in_zoo(Cause::kUnusedNoneVsZero,
           "docs/zoo.md#unused-none-vs-zero",
           "A parameter that should have had no gradient (None) was given zeros, so momentum and "
           "weight decay moved it anyway.",
           "Leave the gradients of unused parameters at None on all ranks: use "
           "zero_grad(set_to_none=True), and do not fill in zeros."),
    // What a window of micro-steps accumulates.
    {Cause::kAccumulateDiffers,
     "accumulate-differs",
     "The ranks accumulate gradients over different numbers of backward passes per step.",
     "Read the number of accumulation steps from one configuration on all ranks, and count "
     "micro-steps with a counter that all ranks share.",
     "docs/laws.md#3-optimizer-equal"},
    {Cause::kAccumulatedTwice,
     "accumulated-twice",
     "A backward pass added its contribution to the gradient twice, so some samples count double "
     "in the step.",
     "Call backward once per loss, and do not add to .grad what backward has already added.",
     "docs/laws.md#21-accumulated-once"},
    {Cause::kContributionLost,
     "contribution-lost",
     "Gradients were accumulated over several backward passes, and one contribution is missing "
     "from the sum.",
     "Clear gradients once per step, before its first backward pass, and not before each of them.",
     "docs/laws.md#21-accumulated-once"},
    {Cause::kEvaluationTouchesGradients,
     "evaluation-touches-gradients",
     "An evaluation between two micro-steps of one window cleared the accumulated gradients, or "
     "added its own to them.",
     "Evaluate between windows, after the optimizer step, under torch.no_grad(), and call "
     "zero_grad() only in the training loop.",
     "docs/laws.md#21-accumulated-once"},
    in_zoo(Cause::kLastMicroUnsynced,
           "docs/zoo.md#last-micro-unsynced",
           "A micro-batch added gradients after the last reduction, so the step used a part that "
           "was never averaged.",
           "Leave no_sync for the last micro-batch of every step, for its forward and its "
           "backward. Call backward once per forward: add up the losses that share one."),
    in_zoo(Cause::kNoSyncOneRank,
           "docs/zoo.md#no-sync-one-rank",
           "Some ranks ran a backward under no_sync that the others did not, so the others' "
           "reductions had no partner.",
           "Enter no_sync for the same micro-batches on every rank."),
    {Cause::kPartialWindow,
     "partial-window",
     "The batches of an epoch do not fill its accumulation windows, and the last contributions "
     "were dropped or leaked into the next epoch.",
     "Step at the end of each epoch, too: `if (i + 1) % k == 0 or i + 1 == len(loader)`.",
     "docs/laws.md#24-trained-set"},
    in_zoo(Cause::kZeroGradForgotten,
           "docs/zoo.md#zero-grad-forgotten",
           "Some ranks kept the gradients of the previous step, so this step used them again.",
           "Call optimizer.zero_grad() before the first backward of every step, on every rank."),
    // What a loss contains.
    {Cause::kCollectiveOutsideAutograd,
     "collective-outside-autograd",
     "The loss contains values that were summed or averaged over the ranks by a call that autograd "
     "does not see, so the other ranks' gradients are lost.",
     "Inside a loss, use the result of a differentiable collective such as "
     "torch.distributed.nn.functional.all_reduce. Use dist.all_reduce only for values that need no "
     "gradient.",
     "docs/laws.md#12-single-process-equal"},
    {Cause::kCollectiveResultDropped,
     "collective-result-dropped",
     "A collective that returns its result was called as if it worked in place, so each rank "
     "continued with its own values.",
     "Use what the call returns, as in x = all_reduce(x): functional collectives do not change "
     "their input.",
     "docs/laws.md#12-single-process-equal"},
    {Cause::kGatherOwnShare,
     "gather-own-share",
     "The loss contains gathered values, and the gather's backward returns only this rank's share "
     "of the gradient, or none: the other ranks' gradients are lost.",
     "Use torch.distributed.nn.functional.all_gather, or reduce_scatter the gradient in the "
     "backward of your own function. Detach what you gather where no gradient is meant.",
     "docs/laws.md#12-single-process-equal"},
    in_zoo(Cause::kTokenWeightedMean,
           "docs/zoo.md#token-weighted-mean",
           "Every rank had the same weight although their numbers of tokens or samples differed: a "
           "mean of means.",
           "Sum the loss, all_reduce the number of tokens, and scale the loss by world_size / "
           "total_tokens before backward."),
    // Norms and limits.
    in_zoo(Cause::kClipBeforeSync,
           "docs/zoo.md#clip-before-sync",
           "Each rank clipped its own gradients before they were averaged, which is not the same "
           "as clipping the average.",
           "Call clip_grad_norm_ after the backward that reduces, just before optimizer.step(), "
           "and not inside no_sync."),
    in_zoo(Cause::kClipBeforeUnscale,
           "docs/zoo.md#clip-before-unscale",
           "Gradients were clipped while they still carried the loss scale, so the limit cut them "
           "to almost nothing.",
           "Call scaler.unscale_(optimizer) before clip_grad_norm_."),
    {Cause::kClipNormRecounted,
     "clip-norm-recounted",
     "Squared norms of already averaged gradients were summed over the ranks again, so the norm is "
     "too large and gradients are clipped too early.",
     "Compute the norm of averaged gradients locally on each rank, and sum squared norms over the "
     "ranks only where each holds its own shard.",
     "docs/laws.md#22-norm-true"},
    {Cause::kClipNotApplied,
     "clip-not-applied",
     "A norm above the limit was computed, but the gradients that the step used were not clipped.",
     "Clip the gradients that the optimizer holds, between backward and step, and check that the "
     "factor is applied in the dtype of the gradients.",
     "docs/laws.md#22-norm-true"},
    in_zoo(Cause::kClipOneRank,
           "docs/zoo.md#clip-one-rank",
           "All ranks received equal gradients, and some ranks changed theirs before the step, for "
           "example by clipping on one rank only.",
           "Treat reduced gradients the same way on every rank: same clipping, same limit, no `if "
           "rank == ...` between backward and step."),
    {Cause::kClipOwnPart,
     "clip-own-part",
     "Each rank scaled its shards of the gradients by a different factor, as clipping by the norm "
     "of these shards alone does.",
     "Sum the squares over the ranks before taking the root, or call "
     "torch.nn.utils.clip_grad_norm_ on the parameters, which does this for DTensors.",
     "docs/laws.md#22-norm-true"},
});

}  // namespace

std::span<const CauseInfo> gradients_causes() { return kGradientsCauses; }

}  // namespace lockstep::laws
