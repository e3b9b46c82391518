// The table of causes: docs/causes.md shows it, and a test compares them.
#include <array>

#include "lockstep/laws/causes.h"

namespace lockstep {

namespace {

/// A cause that the zoo has a row of, under its own id.
constexpr CauseInfo in_zoo(Cause cause,
                           std::string_view page,
                           std::string_view sentence,
                           std::string_view remedy) {
  return {cause, page.substr(page.find('#') + 1), sentence, remedy, page};
}

constexpr auto kCauses = std::to_array<CauseInfo>({
    {Cause::kAsyncNoWait,
     "async-no-wait",
     "A value was used that a collective had not delivered yet: its handle was not waited for.",
     "Keep the handle of every call with async_op=True, and call work.wait() before the result is "
     "used: `work = dist.all_reduce(x, async_op=True); ...; work.wait()`.",
     "docs/laws.md#15-in-flight-untouched"},
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
    in_zoo(Cause::kClipOneRank,
           "docs/zoo.md#clip-one-rank",
           "All ranks received equal gradients, and some changed theirs before the step, for "
           "example by clipping on one rank only.",
           "Treat reduced gradients the same way on every rank: same clipping, same limit, no `if "
           "rank == ...` between backward and step."),
    in_zoo(Cause::kCodeSkew,
           "docs/zoo.md#code-skew",
           "Some ranks called a collective that the others do not have at all, as if they ran a "
           "different version of the script.",
           "Run the same commit and the same configuration on every node, and look at the call "
           "that only these ranks make."),
    in_zoo(Cause::kDoubleAverage,
           "docs/zoo.md#double-average",
           "Gradients were divided by the number of ranks twice.",
           "Remove your own division by the world size: DDP averages gradients already."),
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
    in_zoo(Cause::kEnvMissingSolo,
           "docs/zoo.md#env-missing-solo",
           "The process saw no launcher variables and took itself for a world of one, so each "
           "process trained alone.",
           "Start with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and fail "
           "instead of falling back to one process."),
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
    in_zoo(Cause::kLastMicroUnsynced,
           "docs/zoo.md#last-micro-unsynced",
           "A micro-batch added gradients after the last reduction, so the step used a part that "
           "was never averaged.",
           "Leave no_sync for the last micro-batch of every step, for its forward and its "
           "backward."),
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
           "The ranks built different models: different names, shapes, dtypes or trainable "
           "parameters.",
           "Build the model from the same configuration on every rank, and freeze or resize the "
           "same layers on all ranks, before wrapping."),
    in_zoo(Cause::kNanSkipOneRank,
           "docs/zoo.md#nan-skip-one-rank",
           "Some ranks skipped a step that the others took, as `if loss.isnan(): continue` does.",
           "Decide together: all_reduce the flag with MAX, and skip on all ranks or on none."),
    in_zoo(Cause::kNoSetEpoch,
           "docs/zoo.md#no-set-epoch",
           "The sampler's epoch was never advanced, so every epoch had the same order.",
           "Call sampler.set_epoch(epoch) at the beginning of every epoch."),
    in_zoo(Cause::kNoSyncOneRank,
           "docs/zoo.md#no-sync-one-rank",
           "Some ranks ran a backward under no_sync that the others did not, so the others' "
           "reductions had no partner.",
           "Enter no_sync for the same micro-batches on every rank."),
    in_zoo(Cause::kOptStateRootOnly,
           "docs/zoo.md#opt-state-root-only",
           "Only some ranks loaded the optimizer's state from the checkpoint, so momentum, step "
           "counts or learning rates differ.",
           "Load the optimizer's state on every rank, or broadcast it from rank 0 after loading."),
    in_zoo(Cause::kOrderSwap,
           "docs/zoo.md#order-swap",
           "The ranks called the same collectives in different orders.",
           "Make the calls in one order on every rank; run background work such as an "
           "asynchronous save on its own process group."),
    in_zoo(Cause::kOverlapRace,
           "docs/zoo.md#overlap-race",
           "The program touched memory that a collective still owned: it read the result or "
           "reused the buffer before wait().",
           "Call work.wait() before you read, write or reuse a tensor that was passed with "
           "async_op=True, and gradients that a hook still reduces."),
    in_zoo(Cause::kPadDuplicatesEval,
           "docs/zoo.md#pad-duplicates-eval",
           "Samples that the sampler repeated as padding were counted again in the metric.",
           "Drop the repeats (truncate gathered results to len(dataset)), or evaluate with a "
           "sampler that does not pad."),
    in_zoo(Cause::kParameterNudged,
           "docs/zoo.md#parameter-nudged",
           "A parameter was equal on all ranks after wrapping, and was written afterwards on "
           "some of them.",
           "Change parameters before wrapping, or make the same change on every rank."),
    in_zoo(Cause::kPartition,
           "docs/zoo.md#partition",
           "Every rank made the call and nothing arrived: the ranks cannot reach one another.",
           "Check the network between the nodes (firewall, routes, NCCL_SOCKET_IFNAME or "
           "GLOO_SOCKET_IFNAME), and restart the job as a whole."),
    in_zoo(Cause::kPersistentWorkerEpoch,
           "docs/zoo.md#persistent-worker-epoch",
           "Persistent data workers kept the epoch they were started with, so set_epoch did not "
           "reach them.",
           "Share the epoch with the workers (a shared tensor), or set persistent_workers=False."),
    in_zoo(Cause::kPrereducedMetric,
           "docs/zoo.md#prereduced-metric",
           "The metric is the mean of the ranks' means, which weighs samples differently where "
           "ranks have different counts.",
           "Reduce sums and counts (all_reduce both), and divide once at the end."),
    in_zoo(Cause::kRankCrash,
           "docs/zoo.md#rank-crash",
           "A rank died or raised an exception, and the others were left waiting for it.",
           "Read that rank's own error first; the other ranks' errors only follow from it."),
    in_zoo(Cause::kRank0OnlyCollective,
           "docs/zoo.md#rank0-only-collective",
           "Rank 0 called a collective that the others did not, usually inside `if rank == 0:`.",
           "Make the call on every rank, or move it out of the branch; evaluate and save on rank "
           "0 with the inner module, not the wrapper."),
    in_zoo(Cause::kReadBeforeCommit,
           "docs/zoo.md#read-before-commit",
           "A checkpoint was announced or read before all of its parts were safely on disk.",
           "Write to a temporary name, fsync, wait for all ranks (dist.barrier), and only then "
           "rename; read after the rename."),
    in_zoo(Cause::kReplicaDrift,
           "docs/zoo.md#replica-drift",
           "Equal gradients and equal optimizer state gave different parameters: the ranks' "
           "arithmetic is not the same.",
           "Use the same hardware, libraries and deterministic kernels on every rank, or "
           "broadcast the parameters from time to time."),
    in_zoo(Cause::kResumeReplays,
           "docs/zoo.md#resume-replays",
           "The resumed run began with the first epoch again.",
           "Save the epoch, start the loop at it, and call sampler.set_epoch with it after "
           "loading."),
    in_zoo(Cause::kResumeReshuffle,
           "docs/zoo.md#resume-reshuffle",
           "The resumed run did not continue at the same place in the data, so samples are "
           "repeated or lost.",
           "Save the sampler's seed, epoch and position, and skip in the same permutation when "
           "you resume."),
    in_zoo(Cause::kRngNotRestored,
           "docs/zoo.md#rng-not-restored",
           "The checkpoint lacked the random generators' states, so dropout or augmentation "
           "continued differently after the resume.",
           "Save and restore torch.get_rng_state(), torch.cuda.get_rng_state() and those of "
           "NumPy and random, for each rank."),
    {Cause::kRngNotShared,
     "rng-not-shared",
     "The ranks drew different values from a random stream that they are meant to share.",
     "Seed that generator the same way on every rank, and draw from it equally often.",
     "docs/laws.md#11-rng-scopes"},
    in_zoo(Cause::kRngRank0Restored,
           "docs/zoo.md#rng-rank0-restored",
           "After a restart several ranks continued one rank's random stream, because the "
           "checkpoint held only one.",
           "Save the generators' states of every rank, and have each rank load its own."),
    in_zoo(Cause::kRngSameDropout,
           "docs/zoo.md#rng-same-dropout",
           "Several ranks drew the same random numbers for what should differ, such as dropout "
           "or augmentation.",
           "Seed by rank after building the model: torch.manual_seed(seed + rank)."),
    in_zoo(Cause::kSamplerSeedDiffers,
           "docs/zoo.md#sampler-seed-differs",
           "The ranks shuffled with different seeds or epochs, so their shards overlap and leave "
           "samples out.",
           "Give DistributedSampler the same seed and set_epoch the same epoch on every rank; "
           "seed per rank only what is not the sampler."),
    in_zoo(Cause::kScalerInfLocal,
           "docs/zoo.md#scaler-inf-local",
           "Only some ranks saw an overflow: they skipped the step and lowered their loss scale, "
           "and the others did not.",
           "Check for inf and nan after the reduction, or all_reduce found_inf with MAX; use "
           "ShardedGradScaler for sharded optimizers."),
    in_zoo(Cause::kScalerSchedMissing,
           "docs/zoo.md#scaler-sched-missing",
           "The checkpoint lacked the state of the optimizer, the scheduler or the gradient "
           "scaler.",
           "Save and load state_dict() of optimizer, scheduler and GradScaler together with the "
           "model."),
    in_zoo(Cause::kSdcAfterReduce,
           "docs/zoo.md#sdc-after-reduce",
           "One rank's values changed after the reduction although its inputs equalled the "
           "others': memory or a transfer was corrupted.",
           "Take the named rank's GPU or host out of the job, test its memory, and resume from "
           "the last good checkpoint."),
    in_zoo(Cause::kSdcBeforeReduce,
           "docs/zoo.md#sdc-before-reduce",
           "A rank's local gradient was wrong before the reduction, and the average spread it to "
           "all ranks.",
           "Compute the named rank's step again; if it comes out differently, replace the "
           "hardware and resume from the last good checkpoint."),
    in_zoo(Cause::kSendSend,
           "docs/zoo.md#send-send",
           "Ranks sent to each other first and received only afterwards, so each waited for the "
           "other.",
           "Let one side receive first, or use isend and irecv (batch_isend_irecv)."),
    in_zoo(Cause::kShapeMismatchCompletes,
           "docs/zoo.md#shape-mismatch-completes",
           "The ranks called the same collective with different numbers of elements, which may "
           "even finish, but with a wrong result.",
           "Give the tensor the same shape on every rank: pad it, or exchange the sizes first "
           "and gather into tensors of those sizes."),
    in_zoo(Cause::kSignalStopOneRank,
           "docs/zoo.md#signal-stop-one-rank",
           "A stop signal reached one rank, which acted on it alone.",
           "Set a flag in the handler, all_reduce it with MAX once per step, and stop or save on "
           "all ranks in the same step."),
    in_zoo(Cause::kSlowRank0Timeout,
           "docs/zoo.md#slow-rank0-timeout",
           "A rank was late, not stuck: the watchdog's timeout was shorter than its save, "
           "evaluation or compilation.",
           "Raise the timeout (init_process_group(timeout=...)), or keep long work of one rank "
           "away from collectives of the others."),
    in_zoo(Cause::kSplitLeak,
           "docs/zoo.md#split-leak",
           "The ranks split the data differently, so samples that one holds out for validation "
           "were trained on by another.",
           "Split with the same seed on every rank: random_split(..., "
           "generator=torch.Generator().manual_seed(seed))."),
    in_zoo(Cause::kSubgroupOnSomeRanks,
           "docs/zoo.md#subgroup-on-some-ranks",
           "Not all members created the group that others already use.",
           "Call dist.new_group on every rank of the job, members or not, in the same order."),
    in_zoo(Cause::kSumVsMean,
           "docs/zoo.md#sum-vs-mean",
           "Gradients were summed where the job declared a mean, so they are too large by a "
           "factor such as the world size.",
           "Divide by dist.get_world_size() after all_reduce(SUM), or use ReduceOp.AVG; with "
           "DDP, use a loss that averages."),
    in_zoo(Cause::kTagMismatch,
           "docs/zoo.md#tag-mismatch",
           "A message was sent under one tag and awaited under another, so both sides waited.",
           "Use the same tag in dist.send and dist.recv."),
    in_zoo(Cause::kTailDroppedEval,
           "docs/zoo.md#tail-dropped-eval",
           "The evaluation left samples out, because its sampler or loader drops the incomplete "
           "tail.",
           "Set drop_last=False in the evaluation's sampler and loader."),
    in_zoo(Cause::kTokenWeightedMean,
           "docs/zoo.md#token-weighted-mean",
           "Every rank counted the same although they had different numbers of tokens or "
           "samples: a mean of means.",
           "Sum the loss, all_reduce the number of tokens, and scale the loss by world_size / "
           "total_tokens before backward."),
    in_zoo(Cause::kTwoCommCycle,
           "docs/zoo.md#two-comm-cycle",
           "The ranks entered calls of two process groups in different orders, and each waited "
           "for the other.",
           "Enter groups in one order on every rank, or finish the calls of one group before "
           "those of the next."),
    in_zoo(Cause::kTwoRankZeros,
           "docs/zoo.md#two-rank-zeros",
           "Two nodes were started with the same node rank, so two processes claim the same "
           "place on one node.",
           "Give every node its own --node_rank (or use --rdzv_backend=c10d), and the same "
           "--master_addr."),
    in_zoo(Cause::kUnevenBatches,
           "docs/zoo.md#uneven-batches",
           "The ranks had different numbers of batches, so the longest waited alone at the end "
           "or the others missed updates.",
           "Use DistributedSampler (it pads or drops), stop all ranks at the shortest, or train "
           "inside `with Join([ddp]):` (model.join())."),
    in_zoo(Cause::kUnusedBucketUnfired,
           "docs/zoo.md#unused-bucket-unfired",
           "A parameter that got no gradient kept its bucket from being reduced, so used "
           "parameters were not averaged either.",
           "Pass find_unused_parameters=True, or make every parameter take part in the loss."),
    in_zoo(Cause::kUnusedNoneVsZero,
           "docs/zoo.md#unused-none-vs-zero",
           "A parameter that should have had no gradient (None) was given zeros, so momentum and "
           "weight decay moved it anyway.",
           "Leave the gradients of unused parameters at None on all ranks: "
           "zero_grad(set_to_none=True), and add no zeros yourself."),
    in_zoo(Cause::kWeightedNotSharded,
           "docs/zoo.md#weighted-not-sharded",
           "Every rank drew from the whole data set: the sampler does not know about ranks.",
           "Draw one order from a shared seed and take every world_size-th index from the rank "
           "on, or wrap the sampler in a distributed one."),
    in_zoo(Cause::kWorkerSeedClones,
           "docs/zoo.md#worker-seed-clones",
           "Several data workers, or epochs, drew the same random numbers.",
           "Seed each worker in worker_init_fn from torch.initial_seed(), for NumPy and random "
           "too."),
    in_zoo(Cause::kWorldFromDevices,
           "docs/zoo.md#world-from-devices",
           "The world size came from somewhere other than the launcher, such as the number of "
           "visible GPUs, and is not the number of processes.",
           "Use WORLD_SIZE from torchrun (dist.get_world_size()), never "
           "torch.cuda.device_count()."),
    in_zoo(Cause::kZeroGradForgotten,
           "docs/zoo.md#zero-grad-forgotten",
           "Some ranks kept the gradients of the previous step, so this step used them again.",
           "Call optimizer.zero_grad() before the first backward of every step, on every rank."),
});

}  // namespace

std::span<const CauseInfo> all_causes() { return kCauses; }

}  // namespace lockstep
