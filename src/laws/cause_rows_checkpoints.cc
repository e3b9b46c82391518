// Causes in what a job saves and resumes from.
#include <array>

#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep::laws {

namespace {

constexpr auto kCheckpointsCauses = std::to_array<CauseInfo>({
    in_zoo(Cause::kCheckpointDecisionDiffers,
           "docs/zoo.md#checkpoint-decision-differs",
           "The ranks disagreed on whether to save, evaluate or keep this checkpoint, so only some "
           "of them entered the collectives that follow.",
           "All-reduce the metric before you decide on it, or decide on rank 0 and broadcast the "
           "decision."),
    in_zoo(Cause::kCkptDirClock,
           "docs/zoo.md#ckpt-dir-clock",
           "The ranks named the checkpoint folder by their own clocks, so its parts are in "
           "different folders.",
           "Choose the folder's name on rank 0 and broadcast it (broadcast_object_list) before any "
           "rank writes."),
    in_zoo(Cause::kHookStateMissing,
           "docs/zoo.md#hook-state-missing",
           "The checkpoint lacked the communication hook's state, so the resumed run restarted its "
           "error feedback from zero.",
           "Save and load the hook's state (a PowerSGDState can be pickled) with the model and the "
           "optimizer."),
    in_zoo(Cause::kLoadRank0Only,
           "docs/zoo.md#load-rank0-only",
           "Only some ranks loaded the checkpoint, after DDP had already broadcast its initial "
           "state, so the others kept the old values.",
           "Load on every rank (map_location per rank), or load on rank 0 before wrapping the "
           "model in DDP."),
    in_zoo(Cause::kManyWriters,
           "docs/zoo.md#many-writers",
           "Several ranks wrote the same file.",
           "Save under `if dist.get_rank() == 0:`, using the global rank and not LOCAL_RANK, or "
           "give every rank its own file."),
    in_zoo(Cause::kOptStateRootOnly,
           "docs/zoo.md#opt-state-root-only",
           "Only some ranks loaded the optimizer's state from the checkpoint, so momentum, step "
           "counts or learning rates differ.",
           "Load the optimizer's state on every rank, or broadcast it from rank 0 after loading."),
    in_zoo(Cause::kReadBeforeCommit,
           "docs/zoo.md#read-before-commit",
           "A checkpoint was announced or read before all of its parts were safely on disk.",
           "Write to a temporary name, fsync, wait for all ranks (dist.barrier), and only then "
           "rename; read after the rename."),
    {Cause::kResumeElsewhere,
     "resume-elsewhere",
     "A restart looked for its checkpoint under a name other than the one it was saved under, "
     "found none and started from scratch.",
     "Keep the path in one variable for saving and loading, and log what a start resumes from.",
     "docs/laws.md#18-checkpoint-whole"},
    {Cause::kResumePathDisagrees,
     "resume-path-disagrees",
     "Some ranks found a checkpoint and resumed from it, and the others started from scratch.",
     "Look for the checkpoint on rank 0 only, and broadcast the result before any rank acts on it.",
     "docs/zoo.md#resume-path-disagrees"},
    in_zoo(
        Cause::kResumeReplays,
        "docs/zoo.md#resume-replays",
        "The resumed run started again with the first epoch.",
        "Save the epoch, start the loop at it, and call sampler.set_epoch with it after loading."),
    in_zoo(Cause::kResumeReshuffle,
           "docs/zoo.md#resume-reshuffle",
           "The resumed run did not continue at the same place in the data, so samples are "
           "repeated or lost.",
           "Save the sampler's seed, epoch and position, and skip in the same permutation when you "
           "resume."),
    in_zoo(
        Cause::kScalerSchedMissing,
        "docs/zoo.md#scaler-sched-missing",
        "The checkpoint lacked the state of the optimizer, the scheduler or the gradient scaler.",
        "Save and load state_dict() of optimizer, scheduler and GradScaler together with the "
        "model."),
});

}  // namespace

std::span<const CauseInfo> checkpoints_causes() { return kCheckpointsCauses; }

}  // namespace lockstep::laws
