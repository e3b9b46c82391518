// Examples of causes in samples, random streams, metrics and where ranks run.
#include <array>

#include "lockstep/laws/cause_examples.h"
#include "lockstep/laws/examples/parts.h"

namespace lockstep::laws {

namespace {

constexpr auto kDataExamples = std::to_array<CauseExample>({
    {Cause::kDuplicateDevice,
     R"(model.cuda()  # device 0 on every rank)",
     R"(torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model.cuda())"},
    {Cause::kEnvMissingSolo,
     R"(python train.py  # no torchrun: each process is a world of its own)",
     R"(torchrun --nproc-per-node 8 train.py)"},
    {Cause::kIgnoredSetDiffers,
     R"(DDP._set_params_and_buffers_to_ignore_for_model(model, ["head.weight"] if rank == 0 else []))",
     R"(DDP._set_params_and_buffers_to_ignore_for_model(model, ["head.weight"]))"},
    {Cause::kIterableUnsharded,
     R"(class Rows(IterableDataset):
    def __iter__(self):
        return iter(self.rows)  # all of them, in every process)",
     R"(class Rows(IterableDataset):
    def __iter__(self):
        return islice(self.rows, dist.get_rank(), None, dist.get_world_size()))"},
    {Cause::kLocalMetricLogged,
     R"(if rank == 0:
    log(correct / total)  # of rank 0's share)",
     R"(counts = torch.tensor([correct, total], device=device)
dist.all_reduce(counts)
if rank == 0:
    log((counts[0] / counts[1]).item()))"},
    {Cause::kClassesDiffer,
     R"(index = {name: i for i, name in enumerate(set(names))})",
     R"(index = {name: i for i, name in enumerate(sorted(set(names)))})"},
    {Cause::kDataOrderDiffers,
     R"(files = os.listdir(folder))",
     R"(files = sorted(os.listdir(folder)))"},
    {Cause::kLocalRankAsRank,
     R"(sampler = DistributedSampler(data, rank=int(os.environ["LOCAL_RANK"])))",
     R"(sampler = DistributedSampler(data, rank=int(os.environ["RANK"])))"},
    {Cause::kModelDiffers,
     R"(model = Net(n_classes=len(set(labels)))  # of this rank's shard)",
     R"(model = Net(n_classes=config.n_classes))"},
    {Cause::kNoDistributedSampler,
     R"(loader = DataLoader(data, batch_size=8, shuffle=True))",
     R"(sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler))"},
    {Cause::kNoSetEpoch,
     R"(for epoch in range(epochs):
    for x, y in loader:
        step(x, y))",
     R"(for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        step(x, y))"},
    {Cause::kLastBatchEvaluated,
     R"(for x_val, y_val in val_loader:
    total += criterion(model(x), y)  # of the last training batch)",
     R"(for x_val, y_val in val_loader:
    total += criterion(model(x_val), y_val))"},
    {Cause::kPadDuplicatesEval,
     R"(dist.all_gather_into_tensor(predictions, mine)
accuracy = (predictions == labels).float().mean()  # with the sampler's repeats)",
     R"(dist.all_gather_into_tensor(predictions, mine)
predictions = predictions.view(n_ranks, -1).T.flatten()[:len(dataset)])"},
    {Cause::kPersistentWorkerEpoch,
     R"(loader = DataLoader(rows, num_workers=4, persistent_workers=True)
rows.epoch = epoch  # the workers' copies keep theirs)",
     R"(rows.epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
loader = DataLoader(rows, num_workers=4, persistent_workers=True)
rows.epoch.fill_(epoch))"},
    {Cause::kPrereducedMetric,
     R"(accuracy = correct / total
dist.all_reduce(accuracy, op=dist.ReduceOp.AVG)  # shares differ in size)",
     R"(dist.all_reduce(correct)
dist.all_reduce(total)
accuracy = correct / total)"},
    {Cause::kRngNotShared,
     R"(mask = torch.rand(n) < 0.1  # meant to be the same on all ranks)",
     R"(shared = torch.Generator().manual_seed(step)
mask = torch.rand(n, generator=shared) < 0.1)"},
    {Cause::kRngRank0Restored,
     R"(torch.set_rng_state(torch.load("rank0.pt")["rng"]))",
     R"(torch.set_rng_state(torch.load(f"rank{rank}.pt")["rng"]))"},
    {Cause::kRngSameDropout,
     R"(torch.manual_seed(0)  # on every rank, after the model was made)",
     R"(torch.manual_seed(rank))"},
    {Cause::kSamplerSeedDiffers,
     R"(sampler = DistributedSampler(data, seed=random.randrange(2**31)))",
     R"(sampler = DistributedSampler(data, seed=config.seed))"},
    {Cause::kShardsAlike,
     R"(torch.manual_seed(0)
for p in model.parameters():  # fully_shard(model)
    p.to_local().normal_(0.0, 0.02))",
     R"(torch.manual_seed(rank)
for p in model.parameters():
    p.to_local().normal_(0.0, 0.02))"},
    {Cause::kSplitLeak,
     R"(train, test = random_split(data, [0.9, 0.1])  # each rank draws its own split)",
     R"(shared = torch.Generator().manual_seed(0)
train, test = random_split(data, [0.9, 0.1], generator=shared))"},
    {Cause::kTailDroppedEval,
     R"(sampler = DistributedSampler(test, shuffle=False, drop_last=True))",
     R"(sampler = DistributedSampler(test, shuffle=False)  # and count each sample once)"},
    {Cause::kTwoRankZeros,
     R"(torchrun --nnodes 2 --node-rank 0 train.py  # on both nodes)",
     R"(torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint host0:29400 train.py)"},
    {Cause::kWeightedNotSharded,
     R"(loader = DataLoader(data, sampler=WeightedRandomSampler(weights, len(data))))",
     R"(own = list(WeightedRandomSampler(weights, len(data), generator=shared))[rank::n_ranks]
loader = DataLoader(data, sampler=own))"},
    {Cause::kWorkerSeedClones,
     R"(def __getitem__(self, i):
    return self.rows[i] + numpy.random.randn()  # every worker has the same stream)",
     R"(def seed_worker(worker):
    numpy.random.seed(torch.initial_seed() % 2**32)
loader = DataLoader(data, num_workers=4, worker_init_fn=seed_worker))"},
    {Cause::kWorldFromDevices,
     R"(n_ranks = torch.cuda.device_count())",
     R"(n_ranks = dist.get_world_size())"},
});

}  // namespace

std::span<const CauseExample> data_examples() { return kDataExamples; }

}  // namespace lockstep::laws
