// Examples of causes in the order, the partners and the fate of collective calls.
#include <array>

#include "lockstep/laws/cause_examples.h"
#include "lockstep/laws/examples/parts.h"

namespace lockstep::laws {

namespace {

constexpr auto kCallsExamples = std::to_array<CauseExample>({
    {Cause::kAsyncNoWait,
     R"(work = dist.all_reduce(loss, async_op=True)
print(loss.item())  # not reduced yet)",
     R"(work = dist.all_reduce(loss, async_op=True)
work.wait()
print(loss.item()))"},
    {Cause::kCallSetDiffers,
     R"(for value in metrics.values():  # some ranks have a metric more
    dist.all_reduce(value))",
     R"(for name in ("loss", "accuracy"):
    dist.all_reduce(metrics.setdefault(name, torch.zeros(1, device=device))))"},
    {Cause::kCallSkipped,
     R"(if loss.item() < 10.0:  # each rank's own loss
    dist.all_reduce(stats))",
     R"(stats *= loss.item() < 10.0  # zeros count for nothing
dist.all_reduce(stats))"},
    {Cause::kCheckpointDecisionDiffers,
     R"(if loss.item() < best:  # each rank's own loss
    save(ddp)  # enters collectives)",
     R"(dist.all_reduce(loss, op=dist.ReduceOp.AVG)
if loss.item() < best:
    save(ddp))"},
    {Cause::kCodeSkew,
     R"(if os.path.exists("new_feature"):  # on one node only
    dist.all_reduce(extra))",
     R"(# the same commit and files on every node
dist.all_reduce(extra))"},
    {Cause::kDtypeRedopRootMismatch,
     R"(dist.broadcast(x, src=rank)  # every rank names itself)",
     R"(dist.broadcast(x, src=0))"},
    {Cause::kEarlyStopOneRank,
     R"(if validation_loss > last:  # each rank's own
    break)",
     R"(stop = torch.tensor(float(validation_loss > last), device=device)
dist.all_reduce(stop, op=dist.ReduceOp.MAX)
if stop.item():
    break)"},
    {Cause::kFrozenDevice,
     R"(dist.init_process_group("nccl")  # a GPU that hangs keeps its rank silent for minutes)",
     R"(dist.init_process_group("nccl", timeout=timedelta(minutes=2), device_id=device)
# then: nvidia-smi -q, dmesg | grep -i xid, and take the node out)"},
    {Cause::kJoinExtraCall,
     R"(with ddp.join():
    for x, y in loader:
        criterion(ddp(x), y).backward()
        dist.all_reduce(loss)  # a rank without inputs does not make it)",
     R"(with ddp.join():
    for x, y in loader:
        criterion(ddp(x), y).backward()
dist.all_reduce(sum_of_losses))"},
    {Cause::kLinkFlap,
     R"(dist.init_process_group("nccl", timeout=timedelta(seconds=5)))",
     R"(dist.init_process_group("nccl", timeout=timedelta(minutes=10))  # longer than a link needs)"},
    {Cause::kLivelock,
     R"(while not work.is_completed():
    pass  # the call that would complete it comes after the loop)",
     R"(work.wait())"},
    {Cause::kMissingRecv,
     R"(dist.send(x, dst=1)  # on rank 0; rank 1 goes on without receiving)",
     R"(if rank == 0:
    dist.send(x, dst=1)
else:
    dist.recv(x, src=0))"},
    {Cause::kMissingSend,
     R"(dist.recv(x, src=0)  # on rank 1; rank 0 never sends)",
     R"(if rank == 0:
    dist.send(x, dst=1)
else:
    dist.recv(x, src=0))"},
    {Cause::kOrderSwap,
     R"(for name in set(losses):  # another order in each process
    dist.all_reduce(losses[name]))",
     R"(for name in sorted(losses):
    dist.all_reduce(losses[name]))"},
    {Cause::kOverlapRace,
     R"(work = dist.all_reduce(bucket, async_op=True)
bucket.mul_(0.5)
work.wait())",
     R"(work = dist.all_reduce(bucket, async_op=True)
work.wait()
bucket.mul_(0.5))"},
    {Cause::kPartition,
     R"(os.environ["GLOO_SOCKET_IFNAME"] = "docker0"  # an interface that other nodes cannot reach)",
     R"(os.environ["GLOO_SOCKET_IFNAME"] = "eth0"  # NCCL_SOCKET_IFNAME for NCCL)"},
    {Cause::kRankCrash,
     R"(torchrun --nproc-per-node 8 train.py  # one rank dies, the others wait for it)",
     R"(torchrun --nproc-per-node 8 --max-restarts 3 train.py  # resumes from a checkpoint)"},
    {Cause::kRank0OnlyCollective,
     R"(if rank == 0:
    torch.save(ddp.state_dict(), path)
    dist.barrier())",
     R"(if rank == 0:
    torch.save(ddp.state_dict(), path)
dist.barrier())"},
    {Cause::kSendSend,
     R"(dist.send(mine, dst=1 - rank)  # both ranks send first
dist.recv(theirs, src=1 - rank))",
     R"(ops = [dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, theirs, 1 - rank)]
for work in dist.batch_isend_irecv(ops):
    work.wait())"},
    {Cause::kShapeMismatchCompletes,
     R"(dist.all_reduce(logits)  # [batch, classes], and the last batch is smaller on one rank)",
     R"(loader = DataLoader(data, batch_size=b, sampler=DistributedSampler(data), drop_last=True))"},
    {Cause::kSignalStopOneRank,
     R"(if stop_requested:  # only this rank got the SIGTERM
    break)",
     R"(stop = torch.tensor(float(stop_requested), device=device)
dist.all_reduce(stop, op=dist.ReduceOp.MAX)
if stop.item():
    break)"},
    {Cause::kSlowRank0Timeout,
     R"(if rank == 0:
    evaluate_for_an_hour()
dist.barrier()  # the others give up after the timeout)",
     R"(dist.init_process_group("nccl", timeout=timedelta(hours=2))  # or evaluate on all ranks)"},
    {Cause::kSubgroupOnSomeRanks,
     R"(if rank < 2:
    group = dist.new_group([0, 1]))",
     R"(group = dist.new_group([0, 1])  # on every rank of the world, in one order)"},
    {Cause::kTagMismatch,
     R"(dist.send(x, dst=1, tag=step)  # on rank 0
dist.recv(x, src=0, tag=0)  # on rank 1)",
     R"(dist.send(x, dst=1, tag=step)  # on rank 0
dist.recv(x, src=0, tag=step)  # on rank 1)"},
    {Cause::kTwoCommCycle,
     R"(dist.all_reduce(a, group=first)  # rank 0: first, then second
dist.all_reduce(b, group=second)  # rank 1: second, then first)",
     R"(dist.all_reduce(a, group=first)  # one order of groups on all ranks
dist.all_reduce(b, group=second))"},
    {Cause::kUnevenBatches,
     R"(for x, y in shard:  # one rank has a batch more
    step(ddp, x, y))",
     R"(with Join([ddp]):
    for x, y in shard:
        step(ddp, x, y))"},
});

}  // namespace

std::span<const CauseExample> call_examples() { return kCallsExamples; }

}  // namespace lockstep::laws
