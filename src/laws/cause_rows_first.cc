// The first half of the table of causes: docs/causes.md shows it, and a test compares them.
#include <array>

#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep::laws {

namespace {

constexpr auto kFirstCauses = std::to_array<CauseInfo>({
    {Cause::kAbsentGradientsSkipped,
     "absent-gradients-skipped",
     "The program reduced the gradients that each rank had, one after the other, and ranks had "
     "those of different parameters: what one sent for a parameter met another's of another one.",
     "Reduce the gradients of the same parameters, in the same order, on all ranks: where a rank "
     "has none, give it zeros before the reduction.",
     "docs/laws.md#2-replicas-equal"},
    {Cause::kAccumulateDiffers,
     "accumulate-differs",
     "The ranks accumulate gradients over different numbers of backward passes for one step.",
     "Read the number of accumulation steps from one configuration on all ranks, and count windows "
     "by a step counter that all of them share.",
     "docs/laws.md#3-optimizer-equal"},
    {Cause::kAccumulatedTwice,
     "accumulated-twice",
     "A backward pass added its contribution to the gradient twice, so the step counts some "
     "samples double.",
     "Call backward once per loss, and do not add to .grad what backward has added already.",
     "docs/laws.md#21-accumulated-once"},
    {Cause::kAsyncNoWait,
     "async-no-wait",
     "A value was used that a collective had not delivered yet: its handle was not waited for.",
     "Keep the handle of every call with async_op=True, and call work.wait() before the result is "
     "used: `work = dist.all_reduce(x, async_op=True); ...; work.wait()`.",
     "docs/laws.md#15-in-flight-untouched"},
    {Cause::kAutocastOnOneRank,
     "autocast-on-one-rank",
     "Some ranks trained under autocast while the others did not, or in another 16-bit type: their "
     "shares of the mean are rounded differently.",
     "Decide alike on every rank whether to use autocast, and in which type: by the job's "
     "configuration, not by what this rank's device supports.",
     "docs/laws.md#20-decisions-uniform"},
    {Cause::kBatchNormUneven,
     "batch-norm-uneven",
     "Batch norm ran in training mode more often on some ranks than on others, and the statistics "
     "of "
     "rank 0 are those that every rank goes on with.",
     "Call model.eval() before every evaluation, also where only rank 0 evaluates, and freeze the "
     "same "
     "layers on every rank.",
     "docs/laws.md#8-buffers-policy"},
    in_zoo(Cause::kBf16HopRounding,
           "docs/zoo.md#bf16-hop-rounding",
           "Gradients were added up in bfloat16, and the sum was rounded again at every rank it "
           "passed.",
           "Reduce in float32 (no bf16_compress_hook; reduce_dtype=torch.float32 in mixed "
           "precision), and cast afterwards."),
    in_zoo(Cause::kBnLocalEval,
           "docs/zoo.md#bn-local-eval",
           "Each rank kept its own buffers, such as batch norm's running statistics, and an "
           "evaluation or a checkpoint used them although they differ.",
           "Broadcast rank 0's buffers before evaluating and saving, keep "
           "broadcast_buffers=True, or convert the model with "
           "nn.SyncBatchNorm.convert_sync_batchnorm."),
    in_zoo(Cause::kBranchNoGraph,
           "docs/zoo.md#branch-no-graph",
           "One rank computed its loss without some parameters that the others used, so their "
           "buckets never became ready on that rank.",
           "Make every rank's loss depend on the same parameters (add `0 * unused.sum()` in the "
           "empty case), or pass find_unused_parameters=True."),
    in_zoo(Cause::kBucketOrderDiffers,
           "docs/zoo.md#bucket-order-differs",
           "The ranks packed their parameters into buckets in different orders, so gradients of "
           "different parameters were added up.",
           "Register parameters in the same order on every rank, and let DDP build its buckets "
           "instead of reducing gradients as they arrive."),
    {Cause::kBufferCameLate,
     "buffer-came-late",
     "A buffer was registered after DDP had wrapped a model without buffers, and DDP looks for "
     "buffers to broadcast only then.",
     "Register the buffer before the model is wrapped, or give all ranks the same values, for "
     "example by a broadcast from rank 0.",
     "docs/laws.md#8-buffers-policy"},
    {Cause::kBufferOverwrittenBy0,
     "buffer-overwritten-by-0",
     "Each rank wrote its own values into a buffer that all ranks are to share, and the "
     "broadcast of rank 0's copy loses those of the others.",
     "Gather or average the values over all ranks before they are written, or leave the "
     "buffer out of the broadcast.",
     "docs/laws.md#8-buffers-policy"},
    {Cause::kBufferReassigned,
     "buffer-reassigned",
     "A buffer was replaced by a new tensor (`self.b = self.b + 1`), so DDP kept "
     "broadcasting the old one.",
     "Update buffers in place: `self.b += 1`, or `self.b.copy_(...)`.",
     "docs/laws.md#8-buffers-policy"},
    in_zoo(Cause::kBypassWrapper,
           "docs/zoo.md#bypass-wrapper",
           "The forward went to the inner module (`ddp.module(x)`) instead of the DDP wrapper, "
           "so nothing averaged the gradients.",
           "Call the wrapper itself for every forward that is trained on: `ddp(x)`, not "
           "`ddp.module(x)` or a reference from before the wrapping."),
    {Cause::kCallSetDiffers,
     "call-set-differs",
     "The ranks went through the same loop of calls a different number of times: the keys, "
     "gradients or items that it goes over are not the same on all of them.",
     "Make one call per entry of a list that is the same on all ranks, with zeros for what a "
     "rank does not have, or put everything into one tensor.",
     "docs/laws.md#6-collectives-match"},
    in_zoo(Cause::kCheckpointDecisionDiffers,
           "docs/zoo.md#checkpoint-decision-differs",
           "The ranks disagreed on whether to save, evaluate or keep this checkpoint, so only "
           "some of them entered the calls that follow.",
           "Decide on a reduced metric (all_reduce it first), or decide on rank 0 and broadcast "
           "the decision."),
    in_zoo(Cause::kCkptDirClock,
           "docs/zoo.md#ckpt-dir-clock",
           "The ranks named the checkpoint's folder by their own clocks, so its parts lie in "
           "different folders.",
           "Choose the folder's name on rank 0 and broadcast it (broadcast_object_list) before any "
           "rank writes."),
    {Cause::kClassesDiffer,
     "classes-differ",
     "The ranks numbered the classes of the same samples in different orders, so a model learns "
     "another label for a class on each of them.",
     "Sort the names of classes before they are numbered: the order of a set of strings is another "
     "one in each process (`sorted(set(names))`).",
     "docs/laws.md#9-samples-covered"},
    {Cause::kClearedBeforeStep,
     "cleared-before-step",
     "Gradients were cleared after the backward pass and before the optimizer's step, so the step "
     "had "
     "none to use.",
     "Clear first, then call backward, then step: zero_grad() belongs before the backward pass or "
     "after step().",
     "docs/laws.md#24-trained-set"},
    in_zoo(Cause::kClipBeforeSync,
           "docs/zoo.md#clip-before-sync",
           "Each rank clipped its own gradients before they were averaged, which is not the same "
           "as clipping the average.",
           "Call clip_grad_norm_ after the backward that reduces, just before optimizer.step(), "
           "and not inside no_sync."),
    in_zoo(Cause::kClipBeforeUnscale,
           "docs/zoo.md#clip-before-unscale",
           "Gradients were clipped while they still carried the loss scale, so the limit cut "
           "them to almost nothing.",
           "Call scaler.unscale_(optimizer) before clip_grad_norm_."),
    {Cause::kClipNormRecounted,
     "clip-norm-recounted",
     "Squared norms of gradients that were averaged already were summed over the ranks again, "
     "so the norm is too large and gradients are clipped too early.",
     "Take the norm of averaged gradients on each rank by itself; reduce squared norms only "
     "where each rank holds its own shard.",
     "docs/laws.md#22-norm-true"},
    {Cause::kClipNotApplied,
     "clip-not-applied",
     "A norm above the limit was computed, but the gradients that the step used were not scaled "
     "down.",
     "Clip the gradients that the optimizer holds, after the backward pass and before its "
     "step, and check that the factor is applied in the dtype of the gradients.",
     "docs/laws.md#22-norm-true"},
    in_zoo(Cause::kClipOneRank,
           "docs/zoo.md#clip-one-rank",
           "All ranks received equal gradients, and some changed theirs before the step, for "
           "example by clipping on one rank only.",
           "Treat reduced gradients the same way on every rank: same clipping, same limit, no `if "
           "rank == ...` between backward and step."),
    {Cause::kClipOwnPart,
     "clip-own-part",
     "Each rank multiplied its parts of the gradients by a factor of its own, as clipping by the "
     "norm of these parts alone does.",
     "Sum the squares over the ranks before taking the root, or call "
     "torch.nn.utils.clip_grad_norm_ on the parameters, which does so for DTensors.",
     "docs/laws.md#22-norm-true"},
    in_zoo(Cause::kCodeSkew,
           "docs/zoo.md#code-skew",
           "Some ranks called a collective that the others do not have at all, as if they ran a "
           "different version of the script.",
           "Run the same commit and the same configuration on every node, and look at the call "
           "that only these ranks make."),
    {Cause::kCollectiveOutsideAutograd,
     "collective-outside-autograd",
     "The loss contains values that were summed or averaged over the ranks by a call that autograd "
     "knows nothing of, so the gradients of the other ranks' losses do not come back.",
     "Use a differentiable call inside losses, such as torch.distributed.nn.functional.all_reduce, "
     "and use its result; dist.all_reduce is for numbers that nothing is differentiated through.",
     "docs/laws.md#12-single-process-equal"},
    {Cause::kCollectiveResultDropped,
     "collective-result-dropped",
     "A collective that returns its result was called for its side effect, which it does not have: "
     "each rank went on with its own values.",
     "Use what the call returns, as in x = all_reduce(x): functional collectives leave their input "
     "as it is.",
     "docs/laws.md#12-single-process-equal"},
    {Cause::kConfigurationDiffers,
     "configuration-differs",
     "The ranks were given different inputs by one name, such as a vocabulary or a list of "
     "files in another order.",
     "Sort what comes out of a set, a glob or a directory listing on every rank, or build "
     "it on rank 0 and broadcast it (broadcast_object_list).",
     "docs/laws.md#17-environment-bijective"},
    {Cause::kContributionLost,
     "contribution-lost",
     "Gradients were accumulated over several backward passes, and what one of them "
     "contributed is missing from the sum.",
     "Clear gradients once per step, before its first backward pass, and not before each of "
     "them.",
     "docs/laws.md#21-accumulated-once"},
    {Cause::kDataOrderDiffers,
     "data-order-differs",
     "The ranks hold the same samples in different orders, so one index is a different sample on "
     "each of them: their shards overlap and leave samples out.",
     "Sort what a folder or a set lists (`sorted(os.listdir(folder))`), and shuffle it with the "
     "same seed on every rank.",
     "docs/laws.md#9-samples-covered"},
    in_zoo(Cause::kDoubleAverage,
           "docs/zoo.md#double-average",
           "Gradients were divided by the number of ranks twice.",
           "Divide by the number of ranks once: DDP averages gradients already, and so may an "
           "optimizer."),
    in_zoo(Cause::kDtypeRedopRootMismatch,
           "docs/zoo.md#dtype-redop-root-mismatch",
           "The ranks made the same call with a different dtype, reduction operator, root or "
           "another argument that all must agree on.",
           "Pass the same dtype, op and src or dst on every rank; compute them from shared "
           "configuration, not from the rank's own state."),
    in_zoo(
        Cause::kDuplicateDevice,
        "docs/zoo.md#duplicate-device",
        "Two ranks of one node used the same device.",
        "Give each process its own GPU: torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))."),
    in_zoo(Cause::kEarlyStopOneRank,
           "docs/zoo.md#early-stop-one-rank",
           "One rank decided to stop while the others continued, and their next collective waited "
           "for it.",
           "Make stopping a joint decision: all_reduce the flag with MAX, or broadcast rank 0's, "
           "before any rank leaves the loop."),
    in_zoo(Cause::kElasticWorldChange,
           "docs/zoo.md#elastic-world-change",
           "Training continued in the middle of an epoch with a different number of ranks, and its "
           "samples were divided again: some are lost or read twice.",
           "Save the position as a global number of samples, and resume the sampler from it, "
           "whatever the new world size."),
    {Cause::kEmaDrift,
     "ema-drift",
     "State that the program keeps equal by itself, such as a moving average or a teacher, was "
     "updated on some ranks only, or from values that differ between the ranks, or was copied "
     "from a model before the ranks had the same one.",
     "Copy a model after it has been wrapped, and update the copy on every rank from values that "
     "all ranks share, buffers included, or keep it on one rank and broadcast it before it is "
     "used.",
     "docs/laws.md#2-replicas-equal"},
    in_zoo(Cause::kEnvMissingSolo,
           "docs/zoo.md#env-missing-solo",
           "The process saw no launcher variables and took itself for a world of one, so each "
           "process trained alone.",
           "Start with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and fail "
           "instead of falling back to one process."),
    {Cause::kEvalModeOneRank,
     "eval-mode-one-rank",
     "Some ranks trained in evaluation mode while the others did not: without dropout, and with "
     "batch norm's running statistics in place of the batch's.",
     "Call model.train() on every rank before each epoch, also where only rank 0 evaluates.",
     "docs/laws.md#20-decisions-uniform"},
    {Cause::kEvaluationTouchesGradients,
     "evaluation-touches-gradients",
     "An evaluation between two micro-steps of one window cleared the gradients that were being "
     "accumulated, or added its own to them.",
     "Evaluate between windows, after the optimizer's step, under torch.no_grad(), and leave "
     "zero_grad() to the training loop.",
     "docs/laws.md#21-accumulated-once"},
    in_zoo(Cause::kFp16SumOverflow,
           "docs/zoo.md#fp16-sum-overflow",
           "The sum of finite gradients overflowed in float16 before it was divided.",
           "Divide before the sum, reduce in float32 instead of float16, or lower the loss scale."),
    in_zoo(Cause::kFrozenDevice,
           "docs/zoo.md#frozen-device",
           "A rank stopped making progress without an error: it neither ended nor waited in a "
           "call, and the others waited for it.",
           "Look at that rank's GPU and its stack (py-spy dump, nvidia-smi, Xid messages), and "
           "set a timeout in init_process_group so that the job fails."),
    {Cause::kGatherOwnShare,
     "gather-own-share",
     "The loss contains what the ranks have gathered from each other, and the gather's backward "
     "keeps each rank's own share of the gradient, or there is none: what the other ranks' losses "
     "have to say of its values is lost.",
     "Use torch.distributed.nn.functional.all_gather, whose backward adds up the gradients of all "
     "ranks, or write that reduce_scatter into the backward of your own function; detach what is "
     "sent where no gradient is meant.",
     "docs/laws.md#12-single-process-equal"},
    in_zoo(Cause::kHookStateMissing,
           "docs/zoo.md#hook-state-missing",
           "The checkpoint lacked the communication hook's state, so the resumed run restarted "
           "its error feedback from zero.",
           "Save and load the hook's state (a PowerSGDState can be pickled) with the model and "
           "the optimizer."),
    in_zoo(
        Cause::kIgnoredSetDiffers,
        "docs/zoo.md#ignored-set-differs",
        "The ranks had DDP ignore different parameters, so they do not synchronise the same set.",
        "Build the list for _set_params_and_buffers_to_ignore_for_model in the same way on "
        "every rank."),
    in_zoo(Cause::kInitBroadcastPartial,
           "docs/zoo.md#init-broadcast-partial",
           "Some tensors did not hold rank 0's values after wrapping, or were written to while "
           "the initial broadcast was under way.",
           "Do not touch parameters and buffers until the DDP constructor, or your own "
           "broadcast's wait(), has returned."),
    {Cause::kInitBuffersSkipped,
     "init-buffers-skipped",
     "Buffers differed when the model was wrapped, and broadcast_buffers=False turned the "
     "initial broadcast off, too.",
     "Broadcast the buffers from rank 0 before wrapping, or load them on every rank.",
     "docs/zoo.md#init-buffers-skipped"},
    in_zoo(Cause::kInitNoBroadcast,
           "docs/zoo.md#init-no-broadcast",
           "Each rank started from its own initial values, and nothing broadcast rank 0's.",
           "Wrap the model in DDP, or broadcast every parameter and buffer from rank 0 before "
           "the first step."),
    in_zoo(Cause::kIterableUnsharded,
           "docs/zoo.md#iterable-unsharded",
           "Every rank read the whole stream: an IterableDataset has no sampler, and it was not "
           "split.",
           "Split the stream by rank and worker (rank * num_workers + worker_id), or use "
           "datasets.distributed.split_dataset_by_node."),
    {Cause::kJoinExtraCall,
     "join-extra-call",
     "Inside join, a rank that has inputs left made a collective of its own, and ranks without "
     "inputs take part in those of the wrapper alone.",
     "Make the call after the join context, or in a Joinable of your own whose hook shadows it.",
     "docs/laws.md#6-collectives-match"},
    {Cause::kLastBatchEvaluated,
     "last-batch-evaluated",
     "The evaluation computed with the batch that training had left behind, again and again, and "
     "not with the rows that its own loader gave it.",
     "Give the model what the evaluation's loop names: `for x_val, y_val in val_loader: "
     "model(x_val)`.",
     "docs/laws.md#14-metric-true"},
    in_zoo(Cause::kLastMicroUnsynced,
           "docs/zoo.md#last-micro-unsynced",
           "A micro-batch added gradients after the last reduction, so the step used a part that "
           "was never averaged.",
           "Leave no_sync for the last micro-batch of every step, for its forward and its "
           "backward, and call backward once per forward: add up the losses that share one."),
    in_zoo(Cause::kLinkFlap,
           "docs/zoo.md#link-flap",
           "A link between ranks was down for longer than the timeout, so the watchdog gave up "
           "on a call that all ranks had made.",
           "Raise the timeout in init_process_group above the outages you expect, and check the "
           "links and switches of these ranks."),
    in_zoo(Cause::kLivelock,
           "docs/zoo.md#livelock",
           "One rank kept running without ever making the call that the others waited for.",
           "Look for a retry or polling loop on that rank (`while not ready:`), and give it an "
           "exit that all ranks take together."),
    in_zoo(Cause::kLoadRank0Only,
           "docs/zoo.md#load-rank0-only",
           "Only some ranks loaded the checkpoint, after DDP had already broadcast its initial "
           "state, so the others kept the old values.",
           "Load on every rank (map_location per rank), or load on rank 0 before wrapping the "
           "model in DDP."),
    in_zoo(
        Cause::kLocalMetricLogged,
        "docs/zoo.md#local-metric-logged",
        "The reported metric is one rank's own share, not the value over all samples.",
        "Sum values and counts over all ranks (all_reduce) and divide, before you log the metric "
        "or decide on it."),
    in_zoo(Cause::kLocalRankAsRank,
           "docs/zoo.md#local-rank-as-rank",
           "The sampler was given the rank within the node, so ranks with the same local rank "
           "read the same shard.",
           "Pass the global rank: DistributedSampler(rank=dist.get_rank(), "
           "num_replicas=dist.get_world_size()), or let it find both."),
    {Cause::kLrPerRank,
     "lr-per-rank",
     "The ranks stepped with different learning rates.",
     "Compute the learning rate from shared values only, and step the scheduler on every "
     "rank with the same (reduced) metric.",
     "docs/zoo.md#learning-rate-per-rank"},
    in_zoo(Cause::kLrStepsTimesWorld,
           "docs/zoo.md#lr-steps-times-world",
           "The scheduler advanced once per rank at every optimizer step, so the schedule ends "
           "too early by a factor of the world size.",
           "Call scheduler.step() once per optimizer step on each rank, and do not multiply its "
           "steps by the world size."),
    in_zoo(Cause::kManyWriters,
           "docs/zoo.md#many-writers",
           "Several ranks wrote the same file.",
           "Save under `if dist.get_rank() == 0:`, using the global rank and not LOCAL_RANK, or "
           "give every rank its own file."),
    in_zoo(Cause::kMissingRecv,
           "docs/zoo.md#missing-recv",
           "A rank sent a message that its receiver never asked for.",
           "Post the matching dist.recv on the receiver, or remove the send."),
    in_zoo(Cause::kMissingSend,
           "docs/zoo.md#missing-send",
           "A rank waited for a message that no rank sent.",
           "Post the matching dist.send on the sender, or remove the recv."),
    in_zoo(Cause::kModelDiffers,
           "docs/zoo.md#model-differs",
           "The ranks built different models: different names, shapes, dtypes, trainable "
           "parameters or modules, such as another activation or rate of dropout.",
           "Build the model from the same configuration on every rank, and freeze or resize the "
           "same layers on all ranks, before wrapping."),
    in_zoo(Cause::kNanSkipOneRank,
           "docs/zoo.md#nan-skip-one-rank",
           "Some ranks skipped a step that the others took, as `if loss.isnan(): continue` does.",
           "Decide together: all_reduce the flag with MAX, and skip on all ranks or on none."),
    {Cause::kNoDistributedSampler,
     "no-distributed-sampler",
     "Nothing divided the data among the ranks, so each read the whole data set: in the same "
     "order, "
     "all ranks but one did nothing; in orders of their own, every sample counted once per rank in "
     "each epoch.",
     "Give the loader a DistributedSampler (and no shuffle of its own), and call set_epoch on it "
     "before each epoch.",
     "docs/laws.md#9-samples-covered"},
    in_zoo(
        Cause::kNoSetEpoch,
        "docs/zoo.md#no-set-epoch",
        "The sampler's epoch had not been advanced when its next order was drawn, so that epoch "
        "had "
        "the order of the one before.",
        "Call sampler.set_epoch(epoch) at the beginning of every epoch, before the loader is asked "
        "for a batch; a loader whose workers live on draws the next order before this one is used "
        "up: make a new one, or set its epoch before its last batch."),
    in_zoo(Cause::kNoSyncOneRank,
           "docs/zoo.md#no-sync-one-rank",
           "Some ranks ran a backward under no_sync that the others did not, so the others' "
           "reductions had no partner.",
           "Enter no_sync for the same micro-batches on every rank."),
    {Cause::kNongradParamDrift,
     "nongrad-param-drift",
     "A parameter without a gradient, such as a target network's, was changed by each rank "
     "in its own way: DDP averages gradients alone.",
     "Reduce the statistic that the parameter follows, or broadcast the parameter after "
     "each change.",
     "docs/laws.md#2-replicas-equal"},
    in_zoo(Cause::kOptStateRootOnly,
           "docs/zoo.md#opt-state-root-only",
           "Only some ranks loaded the optimizer's state from the checkpoint, so momentum, step "
           "counts or learning rates differ.",
           "Load the optimizer's state on every rank, or broadcast it from rank 0 after loading."),
});

}  // namespace

std::span<const CauseInfo> first_causes() { return kFirstCauses; }

}  // namespace lockstep::laws
