// Causes in what ranks read and draw: samples, metrics and random numbers.
#include <array>

#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep::laws {

namespace {

constexpr auto kDataCauses = std::to_array<CauseInfo>({
    // Samplers and data sets.
    {Cause::kClassesDiffer,
     "classes-differ",
     "The ranks numbered the classes of the same samples in different orders, so the model learns "
     "different labels on each rank.",
     "Sort class names before you number them (`sorted(set(names))`): a set of strings has a "
     "different order in each process.",
     "docs/laws.md#9-samples-covered"},
    {Cause::kDataOrderDiffers,
     "data-order-differs",
     "The ranks hold the same samples in different orders, so the same index is a different "
     "sample: shards overlap and leave samples out.",
     "Sort folder listings and sets (`sorted(os.listdir(folder))`), and shuffle with the same seed "
     "on every rank.",
     "docs/laws.md#9-samples-covered"},
    in_zoo(Cause::kElasticWorldChange,
           "docs/zoo.md#elastic-world-change",
           "Training continued mid-epoch with a different number of ranks, and the samples were "
           "sharded again: some are lost or read twice.",
           "Save the position as a global number of samples, and resume the sampler from it, "
           "whatever the new world size."),
    in_zoo(Cause::kIterableUnsharded,
           "docs/zoo.md#iterable-unsharded",
           "Every rank read the whole stream: an IterableDataset has no sampler, and nothing "
           "sharded it.",
           "Shard the stream by rank and worker (rank * num_workers + worker_id), or use "
           "datasets.distributed.split_dataset_by_node."),
    in_zoo(Cause::kLocalRankAsRank,
           "docs/zoo.md#local-rank-as-rank",
           "The sampler was given the local rank, so ranks with the same local rank read the same "
           "shard.",
           "Pass the global rank: DistributedSampler(rank=dist.get_rank(), "
           "num_replicas=dist.get_world_size()), or let it find both."),
    {Cause::kNoDistributedSampler,
     "no-distributed-sampler",
     "Nothing sharded the data: in equal orders all ranks but one do redundant work, and in "
     "different orders every sample counts once per rank.",
     "Give the loader a DistributedSampler instead of shuffle=True, and call set_epoch on it "
     "before each epoch.",
     "docs/laws.md#9-samples-covered"},
    in_zoo(Cause::kNoSetEpoch,
           "docs/zoo.md#no-set-epoch",
           "The sampler's epoch was not advanced before its next order was drawn, so the epoch "
           "repeated the previous order.",
           "Call sampler.set_epoch(epoch) before each epoch's first batch. Persistent workers draw "
           "the next order early: set its epoch before the last batch, or make a new loader."),
    in_zoo(Cause::kPersistentWorkerEpoch,
           "docs/zoo.md#persistent-worker-epoch",
           "Persistent data workers kept the epoch that they were started with: set_epoch did not "
           "reach them.",
           "Share the epoch with the workers (a shared tensor), or set persistent_workers=False."),
    in_zoo(Cause::kSamplerSeedDiffers,
           "docs/zoo.md#sampler-seed-differs",
           "The ranks shuffled with different seeds or epochs, so their shards overlap and leave "
           "samples out.",
           "Give DistributedSampler the same seed and set_epoch the same epoch on every rank; seed "
           "per rank only what is not the sampler."),
    in_zoo(Cause::kSplitLeak,
           "docs/zoo.md#split-leak",
           "The ranks split the data differently, so samples that one rank holds out for "
           "validation were trained on by another.",
           "Split with the same seed on every rank: random_split(..., "
           "generator=torch.Generator().manual_seed(seed))."),
    in_zoo(Cause::kUnevenBatches,
           "docs/zoo.md#uneven-batches",
           "The ranks had different numbers of batches, so the rank with the most waited alone at "
           "the end, or the others missed updates.",
           "Use DistributedSampler (it pads or drops), stop all ranks at the shortest, or train "
           "inside `with Join([ddp]):` (model.join())."),
    in_zoo(Cause::kWeightedNotSharded,
           "docs/zoo.md#weighted-not-sharded",
           "Every rank sampled from the whole data set: the sampler does not know about ranks.",
           "Draw one order from a shared seed and take every world_size-th index, starting at the "
           "rank, or wrap the sampler in a distributed one."),
    // Evaluations.
    {Cause::kLastBatchEvaluated,
     "last-batch-evaluated",
     "Every iteration of the evaluation used the last training batch instead of the rows that its "
     "own loader returned.",
     "Pass the evaluation loop's variables to the model: `for x_val, y_val in val_loader: "
     "model(x_val)`.",
     "docs/laws.md#14-metric-true"},
    in_zoo(Cause::kLocalMetricLogged,
           "docs/zoo.md#local-metric-logged",
           "The reported metric covers one rank's shard, not all samples.",
           "Sum values and counts over all ranks (all_reduce) and divide, before you log the "
           "metric or decide on it."),
    in_zoo(Cause::kPadDuplicatesEval,
           "docs/zoo.md#pad-duplicates-eval",
           "Samples that the sampler repeated as padding were counted again in the metric.",
           "Drop the repeats (truncate gathered results to len(dataset)), or evaluate with a "
           "sampler that does not pad."),
    in_zoo(Cause::kPrereducedMetric,
           "docs/zoo.md#prereduced-metric",
           "The metric is the mean of the ranks' means, which weights samples differently where "
           "ranks have different counts.",
           "Reduce sums and counts (all_reduce both), and divide once at the end."),
    in_zoo(
        Cause::kTailDroppedEval,
        "docs/zoo.md#tail-dropped-eval",
        "The evaluation left samples out, because its sampler or loader drops the incomplete tail.",
        "Set drop_last=False in the evaluation's sampler and loader."),
    // Random streams.
    in_zoo(Cause::kRngNotRestored,
           "docs/zoo.md#rng-not-restored",
           "The checkpoint lacked the random generators' states, so dropout or augmentation "
           "continued differently after the resume.",
           "Save and restore torch.get_rng_state(), torch.cuda.get_rng_state() and those of NumPy "
           "and random, for each rank."),
    {Cause::kRngNotShared,
     "rng-not-shared",
     "The ranks drew different values from a random stream that they should share.",
     "Seed that generator identically on every rank, and draw from it equally often.",
     "docs/laws.md#11-rng-scopes"},
    in_zoo(Cause::kRngRank0Restored,
           "docs/zoo.md#rng-rank0-restored",
           "After a restart several ranks continued one rank's random stream, because the "
           "checkpoint held only one.",
           "Save the generators' states of every rank, and have each rank load its own."),
    in_zoo(Cause::kRngSameDropout,
           "docs/zoo.md#rng-same-dropout",
           "Several ranks drew the same random numbers where they should differ, such as in "
           "dropout or augmentation.",
           "Seed by rank after building the model: torch.manual_seed(seed + rank)."),
    {Cause::kShardsAlike,
     "shards-alike",
     "The ranks drew their shards of a model from the same seed, so all shards of a tensor hold "
     "the same rows.",
     "Initialise the model before fully_shard shards it, or seed local draws by rank. DTensors "
     "draw for the whole tensor on GPUs, but for each shard separately on the CPU.",
     "docs/laws.md#11-rng-scopes"},
    in_zoo(
        Cause::kWorkerSeedClones,
        "docs/zoo.md#worker-seed-clones",
        "Several data workers, or epochs, drew the same random numbers.",
        "Seed each worker in worker_init_fn from torch.initial_seed(), for NumPy and random too."),
});

}  // namespace

std::span<const CauseInfo> data_causes() { return kDataCauses; }

}  // namespace lockstep::laws
