// Examples of causes in replicated state: models, buffers, optimizers, checkpoints.
#include <array>

#include "lockstep/laws/cause_examples.h"
#include "lockstep/laws/examples/parts.h"

namespace lockstep::laws {

namespace {

constexpr auto kStateExamples = std::to_array<CauseExample>({
    {Cause::kAutocastOnOneRank,
     R"(half = torch.cuda.is_bf16_supported()  # of this rank's own device
with torch.autocast("cuda", torch.bfloat16, enabled=half):)",
     R"(half = torch.tensor(torch.cuda.is_bf16_supported(), dtype=torch.int, device=device)
dist.all_reduce(half, op=dist.ReduceOp.MIN)
with torch.autocast("cuda", torch.bfloat16, enabled=bool(half)):)"},
    {Cause::kBatchNormUneven,
     R"(if rank == 0:
    with torch.no_grad():
        validate(ddp.module)  # in training mode: batch norm takes these batches in, too)",
     R"(if rank == 0:
    ddp.eval()
    with torch.no_grad():
        validate(ddp.module)
    ddp.train())"},
    {Cause::kBnLocalEval,
     R"(ddp = DDP(model, broadcast_buffers=False)
evaluate(ddp.module))",
     R"(ddp = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(model))
evaluate(ddp.module))"},
    {Cause::kBufferCameLate,
     R"(ddp = DDP(model)
prune.random_unstructured(ddp.module.head, "weight", amount=0.5)  # each rank draws its own mask)",
     R"(prune.random_unstructured(model.head, "weight", amount=0.5)
ddp = DDP(model))"},
    {Cause::kBufferOverwrittenBy0,
     R"(self.queue[place] = key  # this rank's own; the next forward broadcasts rank 0's)",
     R"(keys = [torch.empty_like(key) for _ in range(dist.get_world_size())]
dist.all_gather(keys, key)
self.queue[place:place + len(keys)] = torch.stack(keys))"},
    {Cause::kBufferReassigned, R"(self.count = self.count + 1)", R"(self.count += 1)"},
    {Cause::kCkptDirClock,
     R"(folder = time.strftime("run-%H%M")  # each rank looks at its own clock)",
     R"(folder = [time.strftime("run-%H%M")]
dist.broadcast_object_list(folder, src=0))"},
    {Cause::kConfigurationDiffers,
     R"(vocabulary = list(set(words))  # in the order of a hash of this process)",
     R"(vocabulary = sorted(set(words)))"},
    {Cause::kElasticWorldChange,
     R"(sampler = DistributedSampler(data, num_replicas=8, rank=rank)  # the restart has 6 ranks)",
     R"(sampler = DistributedSampler(data)  # asks the group
sampler.set_epoch(epoch)  # and begins the epoch again)"},
    {Cause::kEvalModeOneRank,
     R"(if rank == 0:
    ddp.eval()
    validate(ddp.module)  # and rank 0 goes on in evaluation mode)",
     R"(if rank == 0:
    ddp.eval()
    validate(ddp.module)
ddp.train())"},
    {Cause::kEmaDrift,
     R"(ema.update(model.state_dict())  # running statistics are this rank's own)",
     R"(for b in model.buffers():
    dist.broadcast(b, src=0)
ema.update(model.state_dict()))"},
    {Cause::kHookStateMissing,
     R"(torch.save({"model": ddp.state_dict(), "optimizer": optimizer.state_dict()}, path))",
     R"(torch.save({"model": ddp.state_dict(), "optimizer": optimizer.state_dict(),
            "hook": power_sgd_state}, path))"},
    {Cause::kInitBroadcastPartial,
     R"(work = dist.broadcast(p.data, src=0, async_op=True)
p.data.mul_(2)  # before it has arrived)",
     R"(dist.broadcast(p.data, src=0)
p.data.mul_(2))"},
    {Cause::kInitBuffersSkipped,
     R"(if rank == 0:
    model.load_state_dict(torch.load(path))
ddp = DDP(model, broadcast_buffers=False))",
     R"(model.load_state_dict(torch.load(path))  # on every rank
ddp = DDP(model, broadcast_buffers=False))"},
    {Cause::kInitNoBroadcast,
     R"(model = Net()  # another seed on each rank, and a loop that averages gradients only)",
     R"(model = Net()
for t in model.state_dict().values():
    dist.broadcast(t, src=0)  # or ddp = DDP(model))"},
    {Cause::kLoadRank0Only,
     R"(ddp = DDP(model)
if rank == 0:
    model.load_state_dict(torch.load(path)))",
     R"(ddp = DDP(model)
model.load_state_dict(torch.load(path, map_location=device)))"},
    {Cause::kLrPerRank,
     R"(scheduler = ReduceLROnPlateau(optimizer)
scheduler.step(loss.item())  # each rank's own)",
     R"(dist.all_reduce(loss, op=dist.ReduceOp.AVG)
scheduler.step(loss.item()))"},
    {Cause::kLrStepsTimesWorld,
     R"(for _ in range(dist.get_world_size()):
    scheduler.step())",
     R"(scheduler.step())"},
    {Cause::kManyWriters,
     R"(torch.save(ddp.state_dict(), "model.pt")  # on every rank)",
     R"(if rank == 0:
    torch.save(ddp.state_dict(), "model.pt"))"},
    {Cause::kNanSkipOneRank,
     R"(if torch.isfinite(loss):  # each rank's own
    optimizer.step())",
     R"(bad = (~torch.isfinite(loss)).float()
dist.all_reduce(bad, op=dist.ReduceOp.MAX)
if bad.item() == 0:
    optimizer.step())"},
    {Cause::kOptStateRootOnly,
     R"(if rank == 0:
    optimizer.load_state_dict(state["optimizer"]))",
     R"(optimizer.load_state_dict(state["optimizer"]))"},
    {Cause::kOptimizerOptionsDiffer,
     R"(optimizer = AdamW(ddp.parameters(), weight_decay=float(os.environ.get("WD", 0.1))))",
     R"(options = [{"weight_decay": 0.1}]
dist.broadcast_object_list(options, src=0)
optimizer = AdamW(ddp.parameters(), **options[0]))"},
    {Cause::kOptimizerStale,
     R"(optimizer = AdamW(model.parameters())
model = copy.deepcopy(model).cuda()
ddp = DDP(model))",
     R"(ddp = DDP(model.cuda())
optimizer = AdamW(ddp.parameters()))"},
    {Cause::kOuterStepDenominator,
     R"(dist.all_reduce(delta, group=workers)
delta /= dist.get_world_size()  # of the world, not of the group)",
     R"(dist.all_reduce(delta, group=workers)
delta /= dist.get_world_size(workers))"},
    {Cause::kOuterStepReversed,
     R"(p.grad = mean - start
outer_optimizer.step()  # subtracts)",
     R"(p.grad = start - mean
outer_optimizer.step())"},
    {Cause::kParamReplaced,
     R"(ddp = DDP(model)
model.weight = nn.Parameter(model.weight.detach().cpu().cuda())  # the wrapper has the old one)",
     R"(model.weight.data.copy_(model.weight.detach().cpu())  # in place)"},
    {Cause::kParameterNudged,
     R"(ddp = DDP(model)
nn.init.normal_(model.head.weight)  # each rank draws its own)",
     R"(nn.init.normal_(model.head.weight)
ddp = DDP(model))"},
    {Cause::kReadBeforeCommit,
     R"(if rank == 0:
    torch.save(state, path)
state = torch.load(path))",
     R"(if rank == 0:
    torch.save(state, path)
dist.barrier()
state = torch.load(path))"},
    {Cause::kReplicaDrift,
     R"(torch.use_deterministic_algorithms(False)  # updates that round differently on each GPU)",
     R"(torch.use_deterministic_algorithms(True)
for t in ddp.module.state_dict().values():
    dist.broadcast(t, src=0)  # every few hundred steps)"},
    {Cause::kNongradParamDrift,
     R"(target.weight.data.lerp_(x.mean(0), 0.1)  # of this rank's batch)",
     R"(centre = x.mean(0)
dist.all_reduce(centre, op=dist.ReduceOp.AVG)
target.weight.data.lerp_(centre, 0.1))"},
    {Cause::kResumeElsewhere,
     R"(torch.save(state, "snapshot.pt")
if os.path.exists("snapshot"):  # never
    resume("snapshot"))",
     R"(torch.save(state, SNAPSHOT)
if os.path.exists(SNAPSHOT):
    resume(SNAPSHOT))"},
    {Cause::kResumePathDisagrees,
     R"(if os.path.exists(path):  # on this rank's own disk
    resume(path))",
     R"(found = [os.path.exists(path)]
dist.broadcast_object_list(found, src=0)
if found[0]:
    resume(path))"},
    {Cause::kResumeReplays,
     R"(start_batch = 0  # of the epoch in progress)",
     R"(start_batch = state["batch"]
for i, (x, y) in enumerate(loader):
    if i < start_batch:
        continue)"},
    {Cause::kResumeReshuffle, R"(sampler.set_epoch(0))", R"(sampler.set_epoch(state["epoch"]))"},
    {Cause::kRngNotRestored,
     R"(torch.save({"model": ddp.state_dict()}, path))",
     R"(torch.save({"model": ddp.state_dict(), "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state()}, path)  # one file per rank)"},
    {Cause::kScalerInfLocal,
     R"(scaler.unscale_(optimizer)  # gradients are not reduced yet, and one rank overflowed
scaler.step(optimizer))",
     R"(loss = criterion(ddp(x), y)
scaler.scale(loss).backward()  # reduces: all ranks see the same overflow
scaler.step(optimizer))"},
    {Cause::kScalerSchedMissing,
     R"(torch.save({"model": ddp.state_dict(), "optimizer": optimizer.state_dict(),
            "epoch": epoch}, path))",
     R"(torch.save({"model": ddp.state_dict(), "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(), "scheduler": scheduler.state_dict()}, path))"},
});

}  // namespace

std::span<const CauseExample> state_examples() { return kStateExamples; }

}  // namespace lockstep::laws
