// Causes in how ranks communicate: collectives, messages, failures and the launch.
#include <array>

#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep::laws {

namespace {

constexpr auto kCallsCauses = std::to_array<CauseInfo>({
    // Collectives.
    {Cause::kAsyncNoWait,
     "async-no-wait",
     "The result of an asynchronous collective was used before wait().",
     "Keep the handle of every call with async_op=True, and call work.wait() before you use the "
     "result: `work = dist.all_reduce(x, async_op=True); ...; work.wait()`.",
     "docs/laws.md#15-in-flight-untouched"},
    {Cause::kCallSetDiffers,
     "call-set-differs",
     "The ranks ran the same loop of collectives a different number of times, because they iterate "
     "over different keys, gradients or items.",
     "Make one call per entry of a list that is the same on all ranks, with zeros for what a rank "
     "lacks, or put everything into one tensor.",
     "docs/laws.md#6-collectives-match"},
    {Cause::kCallSkipped,
     "call-skipped",
     "Some ranks left out a collective that they make in other steps, as code in a condition that "
     "each rank decides by its own data does.",
     "Make the call on every rank in every step, with zeros where there is nothing to add, or "
     "all_reduce the condition first.",
     "docs/laws.md#6-collectives-match"},
    in_zoo(Cause::kCodeSkew,
           "docs/zoo.md#code-skew",
           "Some ranks called a collective that the others do not have, as if they ran a different "
           "version of the script.",
           "Run the same commit and configuration on every node, and look at the call that only "
           "these ranks make."),
    in_zoo(Cause::kDtypeRedopRootMismatch,
           "docs/zoo.md#dtype-redop-root-mismatch",
           "The ranks made the same call with a different dtype, reduction operator, root or other "
           "argument that must agree.",
           "Pass the same dtype, op and src or dst on every rank, and compute them from shared "
           "configuration, not from the rank's state."),
    in_zoo(Cause::kEarlyStopOneRank,
           "docs/zoo.md#early-stop-one-rank",
           "One rank decided to stop while the others continued, and their next collective waited "
           "for it.",
           "Decide together: all_reduce the flag with MAX, or broadcast rank 0's, before any rank "
           "leaves the loop."),
    {Cause::kJoinExtraCall,
     "join-extra-call",
     "Inside join, a rank with inputs left made an extra collective, and ranks without inputs "
     "shadow only the wrapper's collectives.",
     "Make the call after the join context, or in your own Joinable with a hook that shadows it.",
     "docs/laws.md#6-collectives-match"},
    in_zoo(Cause::kOrderSwap,
           "docs/zoo.md#order-swap",
           "The ranks called the same collectives in different orders.",
           "Make the calls in one order on every rank; run background work such as an asynchronous "
           "save on its own process group."),
    in_zoo(Cause::kOverlapRace,
           "docs/zoo.md#overlap-race",
           "The program touched memory that a collective still owned: it read the result or reused "
           "the buffer before wait().",
           "Call work.wait() before you read, write or reuse a tensor that was passed with "
           "async_op=True, or a gradient that a hook still reduces."),
    in_zoo(Cause::kRank0OnlyCollective,
           "docs/zoo.md#rank0-only-collective",
           "Rank 0 called a collective that the others did not, usually inside `if rank == 0:`.",
           "Make the call on every rank, or move it out of the branch; evaluate and save on rank 0 "
           "with the inner module, not the wrapper."),
    in_zoo(Cause::kShapeMismatchCompletes,
           "docs/zoo.md#shape-mismatch-completes",
           "The ranks called the same collective with different numbers of elements, which may "
           "even complete, but with a wrong result.",
           "Give the tensor the same shape on every rank: pad it, or exchange the sizes first and "
           "gather into tensors of those sizes."),
    in_zoo(Cause::kSignalStopOneRank,
           "docs/zoo.md#signal-stop-one-rank",
           "A stop signal reached one rank, which acted on it alone.",
           "Set a flag in the handler, all_reduce it with MAX once per step, and stop or save on "
           "all ranks in the same step."),
    in_zoo(Cause::kSubgroupOnSomeRanks,
           "docs/zoo.md#subgroup-on-some-ranks",
           "Not all members created the group that others already use.",
           "Call dist.new_group on every rank of the job, members or not, in the same order."),
    in_zoo(Cause::kTwoCommCycle,
           "docs/zoo.md#two-comm-cycle",
           "The ranks entered collectives of two process groups in different orders, and each "
           "waited for the other.",
           "Enter groups in one order on every rank, or finish the calls of one group before those "
           "of the next."),
    // Messages between two ranks.
    in_zoo(Cause::kMissingRecv,
           "docs/zoo.md#missing-recv",
           "A rank sent a message, and its receiver never posted a recv for it.",
           "Post the matching dist.recv on the receiver, or remove the send."),
    in_zoo(Cause::kMissingSend,
           "docs/zoo.md#missing-send",
           "A rank waited for a message that no rank sent.",
           "Post the matching dist.send on the sender, or remove the recv."),
    in_zoo(Cause::kSendSend,
           "docs/zoo.md#send-send",
           "Ranks sent to each other first and received only afterwards, so each waited for the "
           "other.",
           "Let one side receive first, or use isend and irecv (batch_isend_irecv)."),
    in_zoo(Cause::kTagMismatch,
           "docs/zoo.md#tag-mismatch",
           "A message was sent with one tag and awaited with another, so both sides waited.",
           "Use the same tag in dist.send and dist.recv."),
    // Ranks, links and devices that fail.
    in_zoo(Cause::kFrozenDevice,
           "docs/zoo.md#frozen-device",
           "A rank stopped making progress without an error: it neither ended nor waited in a "
           "call, and the others waited for it.",
           "Look at that rank's GPU and stack (py-spy dump, nvidia-smi, Xid messages), and set a "
           "timeout in init_process_group so that the job fails."),
    in_zoo(Cause::kLinkFlap,
           "docs/zoo.md#link-flap",
           "A link between ranks was down for longer than the timeout, so the watchdog gave up on "
           "a call that all ranks had made.",
           "Raise the timeout in init_process_group above the outages you expect, and check the "
           "links and switches of these ranks."),
    in_zoo(Cause::kLivelock,
           "docs/zoo.md#livelock",
           "One rank kept running without ever making the call that the others waited for.",
           "Look for a retry or polling loop on that rank (`while not ready:`), and give it an "
           "exit that all ranks take together."),
    in_zoo(Cause::kPartition,
           "docs/zoo.md#partition",
           "Every rank made the call and nothing arrived: the ranks cannot reach each other.",
           "Check the network between the nodes (firewall, routes, NCCL_SOCKET_IFNAME or "
           "GLOO_SOCKET_IFNAME), and restart the job as a whole."),
    in_zoo(Cause::kRankCrash,
           "docs/zoo.md#rank-crash",
           "A rank died or raised an exception, and the others were left waiting for it.",
           "Read that rank's own error first; the other ranks' errors only follow from it."),
    in_zoo(Cause::kSdcAfterReduce,
           "docs/zoo.md#sdc-after-reduce",
           "One rank's values changed after the reduction although its inputs equalled the "
           "others': memory or a transfer was corrupted.",
           "Take the named rank's GPU or host out of the job, test its memory, and resume from the "
           "last good checkpoint."),
    in_zoo(Cause::kSdcBeforeReduce,
           "docs/zoo.md#sdc-before-reduce",
           "A rank's local gradient was wrong before the reduction, and the average spread it to "
           "all ranks.",
           "Recompute the named rank's step; if the result differs, replace the hardware and "
           "resume from the last good checkpoint."),
    in_zoo(Cause::kSlowRank0Timeout,
           "docs/zoo.md#slow-rank0-timeout",
           "A rank was late, not stuck: the watchdog's timeout was shorter than its save, "
           "evaluation or compilation.",
           "Raise the timeout (init_process_group(timeout=...)), or keep long work on one rank "
           "away from the other ranks' collectives."),
    // How ranks were started.
    {Cause::kConfigurationDiffers,
     "configuration-differs",
     "The ranks were given different inputs under the same name, such as a vocabulary or a list of "
     "files in a different order.",
     "Sort what comes out of a set, a glob or a directory listing on every rank, or build it on "
     "rank 0 and broadcast it (broadcast_object_list).",
     "docs/laws.md#17-environment-bijective"},
    in_zoo(
        Cause::kDuplicateDevice,
        "docs/zoo.md#duplicate-device",
        "Two ranks of one node used the same device.",
        "Give each process its own GPU: torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))."),
    in_zoo(Cause::kEnvMissingSolo,
           "docs/zoo.md#env-missing-solo",
           "The process saw no launcher variables and assumed a world size of 1, so each process "
           "trained alone.",
           "Start with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and fail "
           "instead of falling back to one process."),
    in_zoo(Cause::kTwoRankZeros,
           "docs/zoo.md#two-rank-zeros",
           "Two nodes were started with the same node rank, so two processes claim the same place "
           "on one node.",
           "Give every node its own --node_rank (or use --rdzv_backend=c10d), and the same "
           "--master_addr."),
    in_zoo(
        Cause::kWorldFromDevices,
        "docs/zoo.md#world-from-devices",
        "The world size came from a source other than the launcher, such as the number of visible "
        "GPUs, and is not the number of processes.",
        "Use WORLD_SIZE from torchrun (dist.get_world_size()), never torch.cuda.device_count()."),
});

}  // namespace

std::span<const CauseInfo> calls_causes() { return kCallsCauses; }

}  // namespace lockstep::laws
