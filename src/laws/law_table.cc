// The numbered contract: what is promised, where the promise comes from, what a quiet law leaves
// open.
#include <array>
#include <cstddef>

#include "lockstep/laws/law.h"
#include "lockstep/laws/law_id.h"

namespace lockstep {

namespace {

constexpr LawKind kTrace = LawKind::kTrace;
constexpr LawKind kBoth = LawKind::kBoth;
constexpr LawKind kRelation = LawKind::kRelation;

constexpr std::array<LawInfo, 24> kLaws = {{
    {1,
     name_of(LawId::kInitEqual),
     "I-INIT",
     "At the first synchronising forward, and after each load, every parameter and synchronised "
     "buffer equals rank 0's, bit for bit.",
     "DDP broadcasts rank 0's state when it is constructed.",
     "Nothing about whether rank 0's state is the intended one.",
     kTrace},
    {2,
     name_of(LawId::kReplicasEqual),
     "I-PARAM",
     "After every step, at evaluation, snapshots and the end, all replicas of a parameter are "
     "bit-equal, frozen ones included.",
     "Equal starts, equal gradients and deterministic updates.",
     "Gradients that are wrong in the same way on every rank; replicas that differ between two "
     "checks.",
     kTrace},
    {3,
     name_of(LawId::kOptimizerEqual),
     "I-OPT",
     "Moments, step counts, learning rate and loss scale are equal on all ranks.",
     "Every rank runs the same update on the same values.",
     "State that only some ranks hold, as sharded optimizers do; options that no event carries.",
     kTrace},
    {4,
     name_of(LawId::kGradientMean),
     "I-GRAD",
     "The gradient a reduction publishes is the declared mean of the local ones: over samples, "
     "tokens or ranks, or their sum.",
     "DDP averages gradients over ranks; an objective over samples or tokens asks for its own "
     "weights.",
     "Local gradients that are wrong before the reduction; errors of rounding size; lossy "
     "communication hooks.",
     kTrace},
    {5,
     name_of(LawId::kReducedOnce),
     "I-ARM",
     "At a step no gradient holds a local contribution newer than its last completed reduction.",
     "DDP promises that gradients are reduced when backward returns.",
     "Whether the reduction was right (gradient-mean), or needed that often (advice only).",
     kTrace},
    {6,
     name_of(LawId::kCollectivesMatch),
     "I-SEQ",
     "The members of a group issue matching calls in the same order.",
     "MPI 4.0, chapter 6; NCCL user guide: same operation, count, type, root and order on all "
     "ranks.",
     "Calls that match by chance from sites that were not recorded; messages inside sub-groups.",
     kTrace},
    {7,
     name_of(LawId::kProgress),
     "I-LIVE",
     "Every posted collective completes, and all ranks end in the same way.",
     "A collective completes once every member has posted it.",
     "Ranks that are slow; schedules other than the one that ran.",
     kTrace},
    {8,
     name_of(LawId::kBuffersPolicy),
     "I-BUF",
     "Each buffer obeys its declared policy: broadcast from rank 0, averaged, synchronised or "
     "local.",
     "DDP's broadcast_buffers.",
     "Whether averaged or synchronised values are the right ones; differences between two checks.",
     kTrace},
    {9,
     name_of(LawId::kSamplesCovered),
     "I-COVER",
     "One epoch's samples are the data set, each as often as declared; splits are disjoint over "
     "all ranks; all ranks consume the same number.",
     "DistributedSampler shards one permutation by rank and pads or drops its tail.",
     "Samplers with replacement; epochs that were not finished may still lack samples; splits of "
     "equal size are taken for one set.",
     kTrace},
    {10,
     name_of(LawId::kEpochReshuffled),
     "I-ORDER",
     "All ranks shuffle with one generator key and order, and each epoch has a different key.",
     "DistributedSampler seeds its permutation with seed + epoch, set by set_epoch.",
     "Orders of foreign samplers below 21 samples, which repeat by chance.",
     kTrace},
    {11,
     name_of(LawId::kRngScopes),
     "I-RNG",
     "Shared random streams are equal, private ones distinct, over ranks, workers, epochs and "
     "restarts.",
     "Dropout and augmentation must differ between ranks; shuffles must not.",
     "Streams that are not recorded; streams that differ in state and overlap later.",
     kTrace},
    {12,
     name_of(LawId::kSingleProcessEqual),
     "I-EQ1",
     "N ranks compute what one rank computes on the same global batch: exactly in exact mode, else "
     "within a derived bound.",
     "Data parallelism is an implementation of large-batch training.",
     "Objectives that depend on the split of the batch by design, such as local batch norm.",
     kBoth},
    {13,
     name_of(LawId::kResumeEqual),
     "I-RESUME",
     "run(n) = run(k), save, load, run(n - k), for every k.",
     "A snapshot is the complete state of a run.",
     "State that differs only after the last step; snapshots at steps other than the job's own.",
     kRelation},
    {14,
     name_of(LawId::kMetricTrue),
     "I-METRIC",
     "A reported metric equals the single-process metric over unique samples.",
     "Padding repeats samples; a metric must not count them twice.",
     "Samples that no rank evaluated; metrics that are not a mean over samples; metrics that only "
     "one rank reports.",
     kTrace},
    {15,
     name_of(LawId::kInFlightUntouched),
     "I-HB",
     "No rank touches memory while a transfer owns it.",
     "MPI 4.0, 3.7.2 and 6.12; c10d: an asynchronous call owns its buffers until its wait.",
     "The user's own raw pointers and spans; threads and streams; traces of backends that do not "
     "watch memory.",
     kTrace},
    {16,
     name_of(LawId::kDeterministic),
     "I-DET",
     "The same seed and schedule give the same trace; another legal schedule gives the same "
     "result.",
     "Reduction orders are named, never the order of arrival.",
     "Schedules that were not tried; values that no event carries.",
     kRelation},
    {17,
     name_of(LawId::kEnvironmentBijective),
     "I-ENV",
     "(rank, world, local rank, device) is a bijection, and all ranks build the same model.",
     "torchrun's environment contract.",
     "Two processes of one rank that overwrite each other's trace; programs that differ in more "
     "than their model.",
     kTrace},
    {18,
     name_of(LawId::kCheckpointWhole),
     "I-CKPT",
     "A checkpoint has one step number, all parts, checksums, an atomic publication and one writer "
     "per file.",
     "A reader sees all of a file or nothing.",
     "Whether what was saved is complete (resume-equal); files that are never read again.",
     kTrace},
    {19,
     name_of(LawId::kRedoEqual),
     "I-REDO",
     "Recomputing a micro-step gives the same bits.",
     "Local computation is deterministic, given parameters, data and the generators' states.",
     "Units that compute the same wrong bits each time; gradients that change after they were "
     "added up; steps that were not recomputed.",
     kTrace},
    {20,
     name_of(LawId::kDecisionsUniform),
     "",
     "A branch that leads to collectives (stop, skip, save, resume) is taken the same way on all "
     "ranks.",
     "All members must make the same calls.",
     "Decisions that no event records; ranks that decide less often (progress).",
     kTrace},
    {21,
     name_of(LawId::kAccumulatedOnce),
     "",
     "What enters a reduction is what was there plus each contribution of its window, once.",
     "Backward adds to .grad, and zero_grad clears it after each step.",
     "What a program does to gradients between two backward passes, unless it is clipping; errors "
     "of rounding size.",
     kTrace},
    {22,
     name_of(LawId::kNormTrue),
     "",
     "Between the reduction and the step, clipping scales all gradients by one factor: the smaller "
     "of 1 and the limit over their true norm, on all ranks alike.",
     "torch.nn.utils.clip_grad_norm_, on gradients that are averaged and unscaled.",
     "Norms within the bounds that sketches give; clipping that the program does by itself.",
     kTrace},
    {23,
     name_of(LawId::kOuterStep),
     "",
     "An outer step (local SGD, DiLoCo) has one sign, denominator and rate, and leaves the same "
     "state on all its ranks.",
     "Ranks that trained alone are brought together by the mean of where they went.",
     "Whether the mean was taken of the right values; ranks that never take an outer step.",
     kTrace},
    {24,
     name_of(LawId::kTrainedSet),
     "",
     "What is trainable is what is reduced is what is optimised, and no contribution is left over.",
     "DDP fixes what it reduces when it wraps; an optimizer, when it is made.",
     "Parameters whose gradients are not recorded; contributions that a program drops on purpose "
     "in the middle of epochs.",
     kTrace},
}};

constexpr bool names_them_all() {
  for (std::size_t i = 0; i < kLaws.size(); ++i) {
    if (kLaws[i].id != kEnumNames<LawId>[i]) return false;
  }
  return kLaws.size() == kEnumNames<LawId>.size();
}

static_assert(names_them_all());

}  // namespace

std::span<const LawInfo> all_laws() { return kLaws; }

const LawInfo* find_law(std::string_view id) {
  for (const LawInfo& law : kLaws) {
    if (law.id == id) return &law;
  }
  return nullptr;
}

}  // namespace lockstep
