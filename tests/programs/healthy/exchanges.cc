// Collectives that belong to a loss, or stand beside it, as they should.
#include <memory>
#include <utility>

#include "lockstep/autograd/node.h"
#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/exchange_jobs.h"
#include "tests/programs/healthy/healthy.h"
#include "tests/programs/healthy/own_gathers.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// The loss is a function of a statistic over the rows of all ranks.
void sum_in_the_loss(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable total = all_reduce(mean_of(ddp(batch.x)), rank.world());
    const Variable mean = scale(total, 1.0 / rank.world().size());
    return mul(mean, mean);
  });
}

void mean_in_the_loss(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable z = ddp(batch.x);
    const Variable mean = all_reduce(mean_of(z), rank.world(), ReduceOp::kAvg);
    return add(mse_loss(z, batch.y), mul(mean, mean));
  });
}

// Every rank compares its rows with those of all ranks.
void gather_in_the_loss(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = all_gather(ddp(batch.x), rank.world());
    const Tensor targets = Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, 0.25);
    return mse_loss(everyone, targets);
  });
}

/// A gather that a program wrote for itself.
class OwnGather final : public Node {
 public:
  OwnGather(ProcessGroup& group, const Shape& rows) : group_(&group), rows_(rows) {}

  void run(Tensor&& grad) override {
    const Tensor all = grad.clone();
    group_->all_reduce(Memory::of(all)).wait_or_throw();
    send(0, all.slice(group_->rank() * rows_.n_elems(), rows_).clone());
  }

 private:
  ProcessGroup* group_;
  Shape rows_;
};

void own_gather_in_the_loss(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable z = ddp(batch.x);
    const Shape all = {rank.world().size() * z.shape()[0], 1};
    Tensor rows = Tensor::empty(rank.runtime(), all, DType::kF32);
    rank.world().all_gather_into_tensor(Memory::of(rows), Memory::of(z.data())).wait_or_throw();
    Ref<Node> node = Node::make<OwnGather>(rank.runtime(), rank.world(), z.shape());
    node->connect(0, z);
    const Variable everyone = Node::attach(std::move(rows), std::move(node));
    return mse_loss(everyone, Tensor::full(rank.runtime(), all, DType::kF32, 0.25));
  });
}

// The mean loss is shown to people, and the own one trained on.
void mean_loss_logged(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable loss = mse_loss(ddp(batch.x), batch.y);
    const Tensor shown = loss.detach().data().clone();
    rank.world().all_reduce(Memory::of(shown), ReduceOp::kAvg).wait_or_throw();
    if (shown.item() > 1000.0) rank.host().log("diverges");
    return loss;
  });
}

// The copy is made without saying that it leaves the graph, and still nothing is computed from it.
void sum_of_losses_logged(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable loss = mse_loss(ddp(batch.x), batch.y);
    const Tensor shown = loss.data().clone();
    rank.world().all_reduce(Memory::of(shown)).wait_or_throw();
    if (shown.item() > 1000.0) rank.host().log("diverges");
    return add(loss, scale(loss, 0.5));
  });
}

// A differentiable call whose result is only looked at.
void mean_loss_logged_by_a_function(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable loss = mse_loss(ddp(batch.x), batch.y);
    if (all_reduce(loss, rank.world(), ReduceOp::kAvg).item() > 1000.0) {
      rank.host().log("diverges");
    }
    return loss;
  });
}

// Outputs are shifted by the largest of all ranks, which changes no gradient.
void shifted_by_the_largest(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable z = ddp(batch.x);
    const Tensor largest = z.data().clone();
    rank.world().all_reduce(Memory::of(largest), ReduceOp::kMax).wait_or_throw();
    return mse_loss(sub(z, Variable(largest)), batch.y);
  });
}

// The weight of a loss follows from all ranks' outputs and is a constant on purpose.
void weight_without_gradient(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable z = ddp(batch.x);
    const Tensor centre = z.detach().data().clone();
    rank.world().all_reduce(Memory::of(centre), ReduceOp::kAvg).wait_or_throw();
    return mse_loss(sub(z, Variable(centre)), batch.y);
  });
}

// Keys come from a second network that is not trained, and are gathered as they are.
void keys_without_gradient(RankContext& rank) {
  Generator init(2);
  Mlp teacher(rank.runtime(), init);
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const auto keys_of_all = [&] {
      const NoGradGuard no_grad(rank.runtime());
      const Tensor keys = teacher(batch.x).data();
      const Tensor all =
          Tensor::empty(rank.runtime(), {rank.world().size(), keys.n_elems()}, DType::kF32);
      rank.world().all_gather_into_tensor(Memory::of(all), Memory::of(keys)).wait_or_throw();
      return all;
    };
    const Variable z = ddp(batch.x);
    return mse_loss(z, keys_of_all().rows(0, 1).reshape(z.shape()));
  });
}

// All ranks have the same loss of an average, so that each of them has the mean of their gradients.
void average_that_all_ranks_share(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable mean = mean_of(ddp(batch.x));
    rank.world().all_reduce(Memory::of(mean.data()), ReduceOp::kAvg).wait_or_throw();
    return mul(mean, mean);
  });
}

// Every rank has the same loss of all rows, and multiplies it by the number of ranks, since of the
// gradient only its own share reaches its own rows.
void own_share_times_ranks(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = gather_of_own_share(rank, ddp(batch.x));
    const Tensor targets = Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, 0.25);
    return times_ranks(rank, mse_loss(everyone, targets));
  });
}

void replaced_rows_times_ranks(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = gather_with_own_rows_replaced(rank, ddp(batch.x));
    const Tensor targets = Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, 0.25);
    return times_ranks(rank, mse_loss(everyone, targets));
  });
}

// What each rank adds on top is its own, and changes no gradient.
void replaced_rows_times_ranks_and_a_constant(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = gather_with_own_rows_replaced(rank, ddp(batch.x));
    const Tensor own =
        Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, 1.0 + rank.rank());
    return times_ranks(rank, scale(sum(add(everyone, Variable(own))), 0.25));
  });
}

// Beside a loss of its own, and divided as windows of two micro-steps divide theirs.
void sum_times_ranks_beside_a_loss(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable z = ddp(batch.x);
    const Variable total = mean_of(z);
    rank.world().all_reduce(Memory::of(total.data())).wait_or_throw();
    const Variable common = times_ranks(rank, mul(total, total));
    return scale(add(common, mse_loss(tanh(z), batch.y)), 0.5);
  });
}

}  // namespace

std::vector<HealthyProgram> exchange_programs() {
  return {
      {.name = "SumInTheLoss", .ranks = 3, .program = sum_in_the_loss},
      {.name = "MeanInTheLoss", .program = mean_in_the_loss},
      {.name = "GatherInTheLoss", .ranks = 3, .program = gather_in_the_loss},
      {.name = "OwnGatherInTheLoss", .program = own_gather_in_the_loss},
      {.name = "OwnShareTimesRanks", .ranks = 3, .program = own_share_times_ranks},
      {.name = "ReplacedRowsTimesRanksAndAConstant",
       .ranks = 3,
       .program = replaced_rows_times_ranks_and_a_constant},
      {.name = "ReplacedRowsTimesRanks", .ranks = 3, .program = replaced_rows_times_ranks},
      {.name = "SumTimesRanksBesideALoss", .ranks = 3, .program = sum_times_ranks_beside_a_loss},
      {.name = "MeanLossLogged", .program = mean_loss_logged},
      {.name = "SumOfLossesLogged", .program = sum_of_losses_logged},
      {.name = "MeanLossLoggedByAFunction", .program = mean_loss_logged_by_a_function},
      {.name = "ShiftedByTheLargest", .program = shifted_by_the_largest},
      {.name = "WeightWithoutGradient", .program = weight_without_gradient},
      {.name = "KeysWithoutGradient", .program = keys_without_gradient},
      {.name = "AverageThatAllRanksShare", .program = average_that_all_ranks_share},
  };
}

}  // namespace lockstep::programs
