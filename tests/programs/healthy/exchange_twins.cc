// Losses that contain what other ranks computed, and whose backward does not tell them.
#include <utility>

#include "lockstep/autograd/node.h"
#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

template <typename Loss>
void trains(RankContext& rank, Loss loss_of) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    loss_of(ddp, batch_of(rank, step)).backward();
    optimizer.step();
  }
}

Variable mean_of(const Variable& z) {
  return scale(sum(tanh(z)), 1.0 / static_cast<double>(z.shape()[0]));
}

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

/// Its backward takes this rank's rows of its own gradient.
class ShareOfGather final : public Node {
 public:
  ShareOfGather(ProcessGroup& group, const Shape& rows) : group_(&group), rows_(rows) {}

  void run(Tensor&& grad) override {
    send(0, grad.slice(group_->rank() * rows_.n_elems(), rows_).clone());
  }

 private:
  ProcessGroup* group_;
  Shape rows_;
};

void keeps_its_share(RankContext& rank) {
  trains(rank, [&](auto& ddp, const Batch& batch) {
    const Variable z = ddp(batch.x);
    const Shape all = {rank.world().size() * z.shape()[0], 1};
    Tensor rows = Tensor::empty(rank.runtime(), all, DType::kF32);
    rank.world().all_gather_into_tensor(Memory::of(rows), Memory::of(z.data())).wait_or_throw();
    Ref<Node> node = Node::make<ShareOfGather>(rank.runtime(), rank.world(), z.shape());
    node->connect(0, z);
    const Variable everyone = Node::attach(std::move(rows), std::move(node));
    return mse_loss(everyone, Tensor::full(rank.runtime(), all, DType::kF32, 0.25));
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
       .says = "too small by the number of ranks, 3"},
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
