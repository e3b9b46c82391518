// Several groups, averages that come seldom, messages, and ranks that do different things on
// purpose.
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm.h"
#include "lockstep/data.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

// Two halves of the world train a network each.
void wrapper_over_half_the_world(RankContext& rank) {
  const std::unique_ptr<ProcessGroup> half = new_subgroups(rank.world(), 2);
  Generator init(static_cast<std::uint64_t>(rank.rank() / 2));
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, *half);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// Gradients are averaged in pairs, parameters over the world: nested groups with nested duties.
void pairs_inside_the_world(RankContext& rank) {
  const std::unique_ptr<ProcessGroup> pair = new_subgroups(rank.world(), 2);
  const std::array<std::int32_t, 2> both = {0, 1};
  const std::unique_ptr<ProcessGroup> twin = pair->split(both);
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 2; ++step) {
    const double loss = train_step(ddp, optimizer, batch_of(rank, step));
    if (summed(*pair, loss) + summed(*twin, loss) < 0.0) rank.host().log("negative");
  }
}

// Only some ranks belong to the group, and only they use it.
void group_of_some_ranks(RankContext& rank) {
  const std::array<std::int32_t, 2> reporters = {0, 2};
  const std::unique_ptr<ProcessGroup> group = new_group(rank.world(), reporters);
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 2; ++step) {
    const double loss = train_step(ddp, optimizer, batch_of(rank, step));
    if (group != nullptr && summed(*group, loss) < 0.0) rank.host().log("negative");
  }
}

// Two pipelines of two ranks: both stages of a pipeline read its share, and each stage averages with that of the other one.
void stages_of_two_pipelines(RankContext& rank) {
  const std::int32_t stage = rank.rank() % 2;
  std::unique_ptr<ProcessGroup> replicas;
  for (const std::int32_t which : {0, 1}) {
    const std::array<std::int32_t, 2> members = {which, which + 2};
    std::unique_ptr<ProcessGroup> group = new_group(rank.world(), members);
    if (stage == which) replicas = std::move(group);
  }
  Generator init(static_cast<std::uint64_t>(1 + stage));
  nn::Linear model(rank.runtime(), 4, 4, init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  data::DistributedSampler sampler(
      rank, {.size = 32, .replicas = 2, .rank = static_cast<std::int64_t>(rank.rank() / 2)});
  std::vector<std::int64_t> ids;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    sampler.set_epoch(epoch);
    sampler.indices(ids);
    optimizer.zero_grad();
    const Batch batch = batch_of(rank, epoch);
    if (stage == 0) {
      const Variable out = model(batch.x);
      rank.world().send(Memory::of(out.data()), rank.rank() + 1).wait_or_throw();
      const Tensor gradient = Tensor::empty_like(out.data());
      rank.world().recv(Memory::of(gradient), rank.rank() + 1).wait_or_throw();
      sum(mul(out, Variable(gradient))).backward();
    } else {
      const Tensor received = Tensor::empty_like(batch.x.data());
      rank.world().recv(Memory::of(received), rank.rank() - 1).wait_or_throw();
      const Variable in(received, true);
      mse_loss(model(in), batch.x.data()).backward();
      rank.world().send(Memory::of(in.grad()), rank.rank() - 1).wait_or_throw();
    }
    for (const Variable& one : model.parameters())
      replicas->all_reduce(Memory::of(one.grad()), ReduceOp::kAvg).wait_or_throw();
    optimizer.step();
  }
}

// Each rank trains alone and all average their parameters every second step.
void local_sgd(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd local(model.parameters(), kSgd);
  PeriodicModelAverager averager(rank.world(), 2);
  PostLocalSgdOptimizer optimizer(local, averager);
  const NoSync no_sync(ddp);
  for (std::int64_t step = 0; step < 5; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// The same after a warm-up in which the wrapper synchronises, by a communication hook.
void post_local_sgd(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  const std::unique_ptr<ProcessGroup> pair = new_subgroups(rank.world(), 2);
  PostLocalSgdHook hook(rank.world(), {.subgroup = pair.get(), .start_iter = 2});
  ddp.register_comm_hook(hook);
  optim::Sgd local(model.parameters(), kSgd);
  PeriodicModelAverager averager(rank.world(), 2, 2);
  PostLocalSgdOptimizer optimizer(local, averager);
  for (std::int64_t step = 0; step < 6; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

void hierarchical_averaging(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd local(model.parameters(), kSgd);
  HierarchicalModelAverager averager(
      rank.world(), {{.period = 1, .group_size = 2}, {.period = 2, .group_size = 4}});
  PostLocalSgdOptimizer optimizer(local, averager);
  const NoSync no_sync(ddp);
  for (std::int64_t step = 0; step < 4; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// Each rank keeps the state of its share of the parameters.
void sharded_optimizer(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  ZeroRedundancyOptimizer optimizer(
      model.parameters(),
      [](std::vector<optim::ParamGroup> groups) {
        return std::make_unique<optim::Adam>(std::move(groups), optim::AdamOptions{.lr = 0.01});
      },
      rank.world());
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
  optimizer.consolidate_state_dict(0);
}

// Ranks have different numbers of batches, and a join context shadows the missing ones.
void uneven_inputs_joined(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  Join join({&ddp});
  join.run([&] {
    for (std::int64_t step = 0; step < 2 + rank.rank(); ++step) {
      train_step(ddp, optimizer, batch_of(rank, step));
    }
  });
}

// Ranks agree on the smallest number of batches before the epoch.
void shortest_rank_decides(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const double n = -largest(rank.world(), -(3.0 + rank.rank()));
  for (std::int64_t step = 0; step < static_cast<std::int64_t>(n); ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
  }
}

// Training stops on all ranks as soon as one of them wants to.
void early_stop_agreed_on(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 5; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    const bool enough = rank.rank() == 1 && step == 2;
    if (largest(rank.world(), enough ? 1.0 : 0.0) > 0.0) break;
  }
}

// Rank 0 writes log lines and the others do not.
void logging_on_rank_0(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const double mean = summed(rank.world(), train_step(ddp, optimizer, batch_of(rank, step)));
    if (rank.rank() == 0)
      rank.host().log("step " + std::to_string(step) + ": " + std::to_string(mean));
  }
}

// The root calls from one line and the others from another.
void sites_differ_by_rank(RankContext& rank) {
  double rate = 0.0;
  const Memory memory = Memory::of(std::span<double>(&rate, 1));
  if (rank.rank() == 0) {
    rate = 0.25;
    rank.world().broadcast(memory, 0).wait_or_throw();
  } else {
    rank.world().broadcast(memory, 0).wait_or_throw();
  }
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = rate});
  train_step(ddp, optimizer, batch_of(rank, 0));
}

// Metrics of all ranks are gathered on rank 0, and their names are broadcast as objects.
void metrics_gathered(RankContext& rank) {
  std::vector<std::string> names = {rank.rank() == 0 ? "loss" : ""};
  broadcast_object_list(rank.world(), names, 0);
  double own = 0.5 + rank.rank();
  std::vector<double> all(static_cast<std::size_t>(rank.world_size()));
  std::vector<Memory> parts;
  if (rank.rank() == 0) {
    for (double& one : all) parts.push_back(Memory::of(std::span<double>(&one, 1)));
  }
  rank.world().gather(parts, Memory::of(std::span<double>(&own, 1)), 0).wait_or_throw();
  const std::vector<std::string> hosts =
      all_gather_object(rank.world(), "host-" + std::to_string(rank.rank()));
  if (rank.rank() == 0) rank.host().log(names[0] + " of " + hosts.back());
}

// A ring of messages, posted together.
void ring_of_messages(RankContext& rank) {
  const std::int32_t n = rank.world_size();
  const Tensor mine = Tensor::full(rank.runtime(), {2}, DType::kF32, rank.rank());
  const Tensor theirs = Tensor::zeros(rank.runtime(), {2}, DType::kF32);
  const std::array<Message, 2> messages = {
      Message{Message::Kind::kSend, Memory::of(mine), (rank.rank() + 1) % n},
      Message{Message::Kind::kRecv, Memory::of(theirs), (rank.rank() + n - 1) % n}};
  for (const Work& work : batch_isend_irecv(rank.world(), messages)) work.wait_or_throw();
}

// All-reduces overlap with computing that does not touch their memory.
void overlapped_communication(RankContext& rank) {
  const Tensor sent = Tensor::full(rank.runtime(), {8}, DType::kF32, 1.0);
  const Tensor other = Tensor::full(rank.runtime(), {8}, DType::kF32, 2.0);
  const Work work = rank.world().all_reduce(Memory::of(sent));
  rank.runtime().kernels().scale(other, other, 0.5);
  work.wait_or_throw();
  rank.runtime().kernels().add(other, other, sent);
}

// Everything through a group that compares calls before it runs them.
void checked_group(RankContext& rank) {
  const std::array<std::int32_t, 2> all = {0, 1};
  const std::unique_ptr<ProcessGroup> group =
      make_checked_group(rank.world().split(all), Duration{10'000'000'000});
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, *group);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

}  // namespace

std::vector<HealthyProgram> group_programs() {
  return {
      {.name = "WrapperOverHalfTheWorld", .ranks = 4, .program = wrapper_over_half_the_world},
      {.name = "PairsInsideTheWorld", .ranks = 4, .program = pairs_inside_the_world},
      {.name = "GroupOfSomeRanks", .ranks = 3, .program = group_of_some_ranks},
      {.name = "StagesOfTwoPipelines", .ranks = 4, .program = stages_of_two_pipelines},
      {.name = "LocalSgd", .program = local_sgd},
      {.name = "PostLocalSgd", .ranks = 4, .program = post_local_sgd},
      {.name = "HierarchicalAveraging", .ranks = 4, .program = hierarchical_averaging},
      {.name = "ShardedOptimizer", .program = sharded_optimizer},
      {.name = "UnevenInputsJoined", .ranks = 3, .program = uneven_inputs_joined},
      {.name = "ShortestRankDecides", .ranks = 3, .program = shortest_rank_decides},
      {.name = "EarlyStopAgreedOn", .program = early_stop_agreed_on},
      {.name = "LoggingOnRank0", .program = logging_on_rank_0},
      {.name = "SitesDifferByRank", .program = sites_differ_by_rank},
      {.name = "MetricsGathered", .ranks = 3, .program = metrics_gathered},
      {.name = "RingOfMessages", .ranks = 3, .program = ring_of_messages},
      {.name = "OverlappedCommunication", .program = overlapped_communication},
      {.name = "CheckedGroup", .program = checked_group},
  };
}

}  // namespace lockstep::programs
