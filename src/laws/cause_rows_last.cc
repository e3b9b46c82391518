// The second half of the table of causes.
#include <array>

#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep::laws {

namespace {

constexpr auto kLastCauses = std::to_array<CauseInfo>({
    {Cause::kOptimizerOptionsDiffer,
     "optimizer-options-differ",
     "The ranks made their optimizers or gradient scalers with different options, such as weight "
     "decay, betas, eps or growth_interval.",
     "Read these options from one configuration on all ranks, and load the same state on all of "
     "them.",
     "docs/laws.md#3-optimizer-equal"},
    {Cause::kOptimizerStale,
     "optimizer-stale",
     "The optimizer holds other parameters than the model that is trained, such as those from "
     "before it was copied, moved or wrapped.",
     "Make the optimizer after the model has its final parameters, from ddp.parameters(), and "
     "make it again when the model is replaced.",
     "docs/laws.md#24-trained-set"},
    in_zoo(Cause::kOrderSwap,
           "docs/zoo.md#order-swap",
           "The ranks called the same collectives in different orders.",
           "Make the calls in one order on every rank; run background work such as an "
           "asynchronous save on its own process group."),
    {Cause::kOuterStepDenominator,
     "outer-step-denominator",
     "What the ranks summed up in an outer step was divided by another number than that of the "
     "ranks.",
     "Divide by the size of the group that was summed over, once: dist.get_world_size(group).",
     "docs/laws.md#23-outer-step"},
    {Cause::kOuterStepReversed,
     "outer-step-reversed",
     "The outer optimizer stepped against the direction in which the ranks had moved.",
     "Give the outer optimizer start - mean as its gradient (an optimizer subtracts), not mean "
     "- start.",
     "docs/laws.md#23-outer-step"},
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
    {Cause::kParamReplaced,
     "param-replaced",
     "The model got new parameters after it was wrapped, such as another head, and the optimizer "
     "trains those: the wrapper does not know of them.",
     "Move, convert, copy and change the model before wrapping it, or change its parameters in "
     "place "
     "(param.data.copy_), and wrap it again otherwise.",
     "docs/laws.md#24-trained-set"},
    in_zoo(
        Cause::kParameterNudged,
        "docs/zoo.md#parameter-nudged",
        "A parameter was equal on all ranks after wrapping, and was written afterwards: on some of "
        "them, or on each with its own value.",
        "Change parameters before wrapping, also what a first batch sets, or make the same change "
        "on every rank; where no line of the program writes to them, test the memory of that "
        "rank."),
    {Cause::kPartialWindow,
     "partial-window",
     "The batches of an epoch do not divide into windows of accumulation, and the "
     "contributions of the last ones were dropped or leaked into the next epoch.",
     "Step at the end of each epoch, too: `if (i + 1) % k == 0 or i + 1 == len(loader)`.",
     "docs/laws.md#24-trained-set"},
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
    {Cause::kReducedAgain,
     "reduced-again",
     "Gradients that the wrapper had averaged were summed over the ranks once more, so each step "
     "was "
     "too large by the number of ranks.",
     "Leave the reduction to DDP: no all_reduce of .grad after a backward pass through the "
     "wrapper.",
     "docs/laws.md#22-norm-true"},
    in_zoo(Cause::kReplicaDrift,
           "docs/zoo.md#replica-drift",
           "Equal gradients and equal optimizer state gave different parameters: the ranks' "
           "arithmetic is not the same.",
           "Use the same hardware, libraries and deterministic kernels on every rank, or "
           "broadcast the parameters from time to time."),
    {Cause::kResumeElsewhere,
     "resume-elsewhere",
     "A restart looked for its checkpoint under another name than it had been saved under, found "
     "none and began anew.",
     "Keep the path in one variable for saving and loading, and print what a start continues from.",
     "docs/laws.md#18-checkpoint-whole"},
    {Cause::kResumePathDisagrees,
     "resume-path-disagrees",
     "Some ranks found a checkpoint and resumed from it, and the others started anew.",
     "Look for the checkpoint on rank 0 alone and broadcast what it has found, before any "
     "rank acts on it.",
     "docs/zoo.md#resume-path-disagrees"},
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
    {Cause::kShardsAlike,
     "shards-alike",
     "The ranks drew their parts of a model that is divided among them from one seed, so all "
     "parts of a tensor hold the same rows.",
     "Initialise the model before fully_shard divides it, or seed what draws local parts by rank; "
     "DTensors draw for the whole tensor on GPUs, and on the CPU each part for itself.",
     "docs/laws.md#11-rng-scopes"},
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
    {Cause::kUnfreezeAfterWrap,
     "unfreeze-after-wrap",
     "A parameter was frozen when the model was wrapped and is trained now, so DDP does not "
     "reduce its gradient.",
     "Set requires_grad before wrapping, and wrap again after changing it.",
     "docs/laws.md#24-trained-set"},
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
    {Cause::kUpdateOverwritten,
     "update-overwritten",
     "Ranks share the steps out, and another rank sends a parameter than the one that has stepped "
     "it, so all go on with its old value and it never trains.",
     "Broadcast each parameter from the rank whose optimizer has it: one function, used for both, "
     "says who that is.",
     "docs/laws.md#24-trained-set"},
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

std::span<const CauseInfo> last_causes() { return kLastCauses; }

}  // namespace lockstep::laws
