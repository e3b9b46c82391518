// Gathers as programs write them for themselves: their backward makes no call.
#pragma once

#include <utility>

#include "lockstep/autograd/node.h"
#include "lockstep/run.h"
#include "lockstep/tensor/shape.h"

namespace lockstep::programs {

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

inline Tensor rows_of_all(RankContext& rank, const Variable& z) {
  const Shape all = {rank.world().size() * z.shape()[0], 1};
  Tensor rows = Tensor::empty(rank.runtime(), all, DType::kF32);
  rank.world().all_gather_into_tensor(Memory::of(rows), Memory::of(z.data())).wait_or_throw();
  return rows;
}

/// All ranks' rows, of which this rank's own are z's.
inline Variable with_own_rows(RankContext& rank, const Variable& z, Tensor rows) {
  Ref<Node> node = Node::make<ShareOfGather>(rank.runtime(), rank.world(), z.shape());
  node->connect(0, z);
  return Node::attach(std::move(rows), std::move(node));
}

inline Variable gather_of_own_share(RankContext& rank, const Variable& z) {
  return with_own_rows(rank, z, rows_of_all(rank, z));
}

/// The rows that came are constants; they are copied, and the graph's own put in their place.
inline Variable gather_with_own_rows_replaced(RankContext& rank, const Variable& z) {
  const Tensor all = rows_of_all(rank, z).clone();
  const Tensor own = all.slice(rank.rank() * z.data().n_elems(), z.shape());
  rank.runtime().kernels().copy(own, z.data());
  return with_own_rows(rank, z, all);
}

inline Variable times_ranks(RankContext& rank, const Variable& loss) {
  return scale(loss, rank.world().size());
}

}  // namespace lockstep::programs
