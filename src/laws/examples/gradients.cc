// Examples of causes in what gradients are made of, and how they are reduced and clipped.
#include <array>

#include "lockstep/laws/cause_examples.h"
#include "lockstep/laws/examples/parts.h"

namespace lockstep::laws {

namespace {

constexpr auto kGradientsExamples = std::to_array<CauseExample>({
    {Cause::kAbsentGradientsSkipped,
     R"(for p in model.parameters():
    if p.grad is not None:  # not the same ones on all ranks
        dist.all_reduce(p.grad))",
     R"(for p in model.parameters():
    if p.grad is None:
        p.grad = torch.zeros_like(p)
    dist.all_reduce(p.grad))"},
    {Cause::kAccumulateDiffers,
     R"(accumulate = 64 // len(batch)  # of this rank's batch)",
     R"(accumulate = config.accumulate  # one number for all ranks)"},
    {Cause::kAccumulatedTwice,
     R"(loss.backward()
for p in model.parameters():
    p.grad += torch.autograd.grad(again, p, retain_graph=True)[0]  # the same loss once more)",
     R"(loss.backward())"},
    {Cause::kBf16HopRounding,
     R"(ddp.register_comm_hook(None, default_hooks.bf16_compress_hook))",
     R"(# no hook: gradients are added up in float32
ddp = DDP(model))"},
    {Cause::kBranchNoGraph,
     R"(loss = head_b(z).sum() if has_b else head_a(z).sum()  # ranks differ in has_b)",
     R"(loss = head_a(z).sum() + 0 * head_b(z).sum()  # or DDP(model, find_unused_parameters=True))"},
    {Cause::kBucketOrderDiffers,
     R"(for name in set(gradients):  # another order in each process
    bucket.append(gradients[name]))",
     R"(for name, p in model.named_parameters():
    bucket.append(p.grad))"},
    {Cause::kBypassWrapper,
     R"(loss = criterion(ddp.module(x), y))",
     R"(loss = criterion(ddp(x), y))"},
    {Cause::kClearedBeforeStep,
     R"(loss.backward()
optimizer.zero_grad()
optimizer.step())",
     R"(optimizer.zero_grad()
loss.backward()
optimizer.step())"},
    {Cause::kCollectiveOutsideAutograd,
     R"(mean = z.mean(0)
dist.all_reduce(mean)  # autograd does not see it
loss = criterion(mean / world_size))",
     R"(mean = torch.distributed.nn.functional.all_reduce(z.mean(0))
loss = criterion(mean / world_size))"},
    {Cause::kCollectiveResultDropped,
     R"(torch.distributed.nn.functional.all_reduce(mean)
loss = criterion(mean / world_size))",
     R"(mean = torch.distributed.nn.functional.all_reduce(mean)
loss = criterion(mean / world_size))"},
    {Cause::kEvaluationTouchesGradients,
     R"(for i, (x, y) in enumerate(loader):
    criterion(ddp(x), y).backward()
    if i % 3 == 0:
        evaluate(ddp)  # calls optimizer.zero_grad()
    if i % 4 == 3:
        optimizer.step(); optimizer.zero_grad())",
     R"(for i, (x, y) in enumerate(loader):
    criterion(ddp(x), y).backward()
    if i % 4 == 3:
        optimizer.step(); optimizer.zero_grad()
        evaluate(ddp)  # under torch.no_grad())"},
    {Cause::kGatherOwnShare,
     R"(everyone = [torch.zeros_like(z) for _ in range(world_size)]
dist.all_gather(everyone, z)
everyone[rank] = z
loss = contrast(torch.cat(everyone)))",
     R"(everyone = torch.distributed.nn.functional.all_gather(z)
loss = contrast(torch.cat(everyone)))"},
    {Cause::kClipBeforeSync,
     R"(loss.backward()  # not through DDP
clip_grad_norm_(model.parameters(), 1.0)
for p in model.parameters():
    dist.all_reduce(p.grad, op=dist.ReduceOp.AVG))",
     R"(loss.backward()
for p in model.parameters():
    dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
clip_grad_norm_(model.parameters(), 1.0))"},
    {Cause::kClipBeforeUnscale,
     R"(scaler.scale(loss).backward()
clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer))",
     R"(scaler.scale(loss).backward()
scaler.unscale_(optimizer)
clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer))"},
    {Cause::kClipNormRecounted,
     R"(squares = sum(p.grad.norm() ** 2 for p in ddp.parameters())
dist.all_reduce(squares)  # gradients are averaged already: all ranks have the same
norm = squares.sqrt())",
     R"(norm = clip_grad_norm_(ddp.parameters(), 1.0))"},
    {Cause::kClipNotApplied,
     R"(for p in model.parameters():
    g = p.grad.float()
    g.mul_(factor)  # a copy where the gradient is bfloat16)",
     R"(for p in model.parameters():
    p.grad.mul_(factor))"},
    {Cause::kClipOneRank,
     R"(if rank == 0:
    clip_grad_norm_(ddp.parameters(), 1.0))",
     R"(clip_grad_norm_(ddp.parameters(), 1.0))"},
    {Cause::kClipOwnPart,
     R"(squares = sum(p.grad.to_local().square().sum() for p in model.parameters())
factor = (1.0 / squares.sqrt()).clamp(max=1.0)  # fully_shard(model): of this rank's parts)",
     R"(squares = sum(p.grad.to_local().square().sum() for p in model.parameters())
dist.all_reduce(squares)
factor = (1.0 / squares.sqrt()).clamp(max=1.0))"},
    {Cause::kContributionLost,
     R"(for x, y in micro_batches:
    optimizer.zero_grad()
    criterion(ddp(x), y).backward()
optimizer.step())",
     R"(optimizer.zero_grad()
for x, y in micro_batches:
    criterion(ddp(x), y).backward()
optimizer.step())"},
    {Cause::kDoubleAverage,
     R"(loss = criterion(ddp(x), y) / dist.get_world_size())",
     R"(loss = criterion(ddp(x), y))"},
    {Cause::kFp16SumOverflow,
     R"(def hook(state, bucket):  # the sum of many ranks leaves float16's range
    return dist.all_reduce(bucket.buffer().half(), async_op=True).get_future())",
     R"(ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)  # divides first)"},
    {Cause::kLastMicroUnsynced,
     R"(for i, (x, y) in enumerate(micro_batches):
    with ddp.no_sync():  # for the last one, too
        criterion(ddp(x), y).backward()
optimizer.step())",
     R"(for i, (x, y) in enumerate(micro_batches):
    last = i + 1 == len(micro_batches)
    with nullcontext() if last else ddp.no_sync():
        criterion(ddp(x), y).backward()
optimizer.step())"},
    {Cause::kNoSyncOneRank,
     R"(with ddp.no_sync() if rank == 1 else nullcontext():
    loss = criterion(ddp(x), y)
    loss.backward())",
     R"(with ddp.no_sync() if not last else nullcontext():  # the same on all ranks
    loss = criterion(ddp(x), y)
    loss.backward())"},
    {Cause::kPartialWindow,
     R"(for i, (x, y) in enumerate(loader):
    (criterion(ddp(x), y) / k).backward()
    if (i + 1) % k == 0:
        optimizer.step()
        optimizer.zero_grad())",
     R"(for i, (x, y) in enumerate(loader):
    (criterion(ddp(x), y) / k).backward()
    if (i + 1) % k == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad())"},
    {Cause::kReducedAgain,
     R"(loss.backward()  # through DDP, which averages
for p in ddp.parameters():
    dist.all_reduce(p.grad))",
     R"(loss.backward()  # through DDP: gradients are averages now)"},
    {Cause::kSdcAfterReduce,
     R"(optimizer.step()  # on a GPU whose memory flipped a bit of an averaged gradient)",
     R"(# take the node out of the pool; then test it: dcgmi diag -r 3)"},
    {Cause::kSdcBeforeReduce,
     R"(loss.backward()  # on a GPU that computes a wrong gradient)",
     R"(# take the node out of the pool; then test it: dcgmi diag -r 3)"},
    {Cause::kSumVsMean,
     R"(for p in model.parameters():
    dist.all_reduce(p.grad)  # a sum
optimizer.step())",
     R"(for p in model.parameters():
    dist.all_reduce(p.grad)
    p.grad /= dist.get_world_size()
optimizer.step())"},
    {Cause::kTokenWeightedMean,
     R"(loss = F.cross_entropy(logits, labels)  # the mean over this rank's own tokens)",
     R"(n = (labels != -100).sum()
dist.all_reduce(n)
loss = F.cross_entropy(logits, labels, reduction="sum") * dist.get_world_size() / n)"},
    {Cause::kUnfreezeAfterWrap,
     R"(ddp = DDP(model)  # model.head is frozen
model.head.requires_grad_(True))",
     R"(model.head.requires_grad_(True)
ddp = DDP(model))"},
    {Cause::kUnusedBucketUnfired,
     R"(ddp = DDP(model)  # one layer takes no part in the loss)",
     R"(ddp = DDP(model, find_unused_parameters=True))"},
    {Cause::kUnusedNoneVsZero,
     R"(optimizer.zero_grad(set_to_none=False)  # unused parameters keep moving by momentum)",
     R"(optimizer.zero_grad(set_to_none=True))"},
    {Cause::kUpdateOverwritten,
     R"(mine = [p for i, p in enumerate(params) if i % world_size == rank]
optimizer = torch.optim.Adam(mine)
for i, p in enumerate(params):  # after each step
    dist.broadcast(p.data, src=i // len(mine)))",
     R"(for i, p in enumerate(params):
    dist.broadcast(p.data, src=i % world_size))"},
    {Cause::kZeroGradForgotten,
     R"(criterion(ddp(x), y).backward()
optimizer.step())",
     R"(optimizer.zero_grad()
criterion(ddp(x), y).backward()
optimizer.step())"},
});

}  // namespace

std::span<const CauseExample> gradient_examples() { return kGradientsExamples; }

}  // namespace lockstep::laws
