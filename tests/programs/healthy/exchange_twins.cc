// Losses that contain what other ranks computed, and whose backward does not tell them.
#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/healthy/exchange_jobs.h"
#include "tests/programs/healthy/own_gathers.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// The sum overwrites the graph's own tensor, and autograd divides the gradient by the ranks.
void sums_outside_autograd(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable total = mean_of(ddp(batch.x));
    rank.world().all_reduce(Memory::of(total.data())).wait_or_throw();
    const Variable mean = scale(total, 1.0 / rank.world().size());
    return mul(mean, mean);
  });
}

// An average that each rank uses for a loss of its own: the ranks' gradients for it differ.
void averages_outside_autograd(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable mean = mean_of(ddp(batch.x));
    rank.world().all_reduce(Memory::of(mean.data()), ReduceOp::kAvg).wait_or_throw();
    const Variable own =
        Variable(Tensor::full(rank.runtime(), mean.shape(), DType::kF32, rank.rank()));
    const Variable distance = sub(mean, own);
    return mul(distance, distance);
  });
}

// The other ranks' share comes in as plain numbers.
void sums_a_copy(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable mean = mean_of(ddp(batch.x));
    const Tensor total = mean.data().clone();
    rank.world().all_reduce(Memory::of(total)).wait_or_throw();
    return mul(mean, Variable(total));
  });
}

void keeps_its_share(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = gather_of_own_share(rank, ddp(batch.x));
    return mse_loss(everyone, Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, 0.25));
  });
}

// Every rank has the same loss, and nothing makes up for the others' shares.
void replaces_its_rows(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = gather_with_own_rows_replaced(rank, ddp(batch.x));
    return mse_loss(everyone, Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, 0.25));
  });
}

// Each rank has a loss of its own on all rows: no factor makes up for what the others would say.
void own_loss_times_ranks(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = gather_of_own_share(rank, ddp(batch.x));
    const double own = 0.25 * (1 + rank.rank());
    const Tensor targets = Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, own);
    return times_ranks(rank, mse_loss(everyone, targets));
  });
}

// The same with rows that are replaced.
void own_loss_of_replaced_rows_times_ranks(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = gather_with_own_rows_replaced(rank, ddp(batch.x));
    const double own = 0.25 * (1 + rank.rank());
    const Tensor targets = Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, own);
    return times_ranks(rank, mse_loss(everyone, targets));
  });
}

// One of two terms is multiplied by the number of ranks.
void one_term_times_ranks(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable everyone = gather_of_own_share(rank, ddp(batch.x));
    const Tensor targets = Tensor::full(rank.runtime(), everyone.shape(), DType::kF32, 0.25);
    return add(times_ranks(rank, mse_loss(everyone, targets)), l1_loss(everyone, targets));
  });
}

// Two ranks have become three, and the factor has not.
void sum_times_another_number(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable total = mean_of(ddp(batch.x));
    rank.world().all_reduce(Memory::of(total.data())).wait_or_throw();
    return scale(mul(total, total), 2.0);
  });
}

// The sum of a copy is not what this rank's own value is a share of.
void copy_times_ranks(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable mean = mean_of(ddp(batch.x));
    const Tensor total = Tensor::empty(rank.runtime(), {rank.world().size()}, DType::kF32);
    rank.world().all_gather_into_tensor(Memory::of(total), Memory::of(mean.data())).wait_or_throw();
    return times_ranks(rank, mul(mean, Variable(total.slice(0, {}))));
  });
}

// The rows of the other ranks are constants in the loss.
void gathers_plain_numbers(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable z = ddp(batch.x);
    const std::int64_t n = z.shape()[0];
    const Tensor rows = Tensor::empty(rank.runtime(), {rank.world().size() * n, 1}, DType::kF32);
    rank.world().all_gather_into_tensor(Memory::of(rows), Memory::of(z.data())).wait_or_throw();
    const std::int64_t next = (rank.rank() + 1) % rank.world().size();
    return mse_loss(sub(z, Variable(rows.rows(next * n, n))), batch.y);
  });
}

// The sum is there, and what is used is what was summed.
void drops_the_sum(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable mean = mean_of(ddp(batch.x));
    const Variable total = all_reduce(mean, rank.world(), ReduceOp::kAvg);
    return mul(mean, mean);
  });
}

}  // namespace

std::vector<BrokenTwin> exchange_twins() {
  return {
      {.name = "SumOutsideAutograd",
       .ranks = 3,
       .program = sums_outside_autograd,
       .law = "single-process-equal",
       .says = "too small by a factor of 3, the number of ranks"},
      {.name = "AverageOutsideAutograd",
       .program = averages_outside_autograd,
       .law = "single-process-equal",
       .says = "collective-outside-autograd"},
      {.name = "SumOfACopy",
       .program = sums_a_copy,
       .law = "single-process-equal",
       .says = "collective-outside-autograd"},
      {.name = "GatherThatKeepsItsShare",
       .ranks = 3,
       .program = keeps_its_share,
       .law = "single-process-equal",
       .says = "gather-own-share"},
      {.name = "RowsThatAreReplaced",
       .ranks = 3,
       .program = replaces_its_rows,
       .law = "single-process-equal",
       .says = "gather-own-share"},
      {.name = "OwnLossTimesRanks",
       .ranks = 3,
       .program = own_loss_times_ranks,
       .law = "single-process-equal",
       .says = "gather-own-share"},
      {.name = "OwnLossOfReplacedRowsTimesRanks",
       .ranks = 2,
       .program = own_loss_of_replaced_rows_times_ranks,
       .law = "single-process-equal",
       .says = "gather-own-share"},
      {.name = "OneTermTimesRanks",
       .ranks = 3,
       .program = one_term_times_ranks,
       .law = "single-process-equal",
       .says = "gather-own-share"},
      {.name = "CopyTimesRanks",
       .ranks = 2,
       .program = copy_times_ranks,
       .law = "single-process-equal",
       .says = "gather-own-share"},
      {.name = "SumTimesAnotherNumber",
       .ranks = 3,
       .program = sum_times_another_number,
       .law = "single-process-equal",
       .says = "too small by a factor of 3, the number of ranks"},
      {.name = "GatherOfPlainNumbers",
       .program = gathers_plain_numbers,
       .law = "single-process-equal",
       .says = "gather-own-share"},
      {.name = "SumThatIsDropped",
       .program = drops_the_sum,
       .law = "single-process-equal",
       .says = "collective-result-dropped"},
  };
}

}  // namespace lockstep::programs
