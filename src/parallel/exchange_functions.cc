#include "lockstep/parallel/exchange_functions.h"

#include <array>
#include <utility>

#include "lockstep/autograd/node.h"

namespace lockstep {

namespace {

OpOptions options_at(CallSite site, const char* scope) {
  OpOptions options;
  options.site = site;
  options.site.scope = scope;
  return options;
}

class AllReduceNode final : public Node {
 public:
  AllReduceNode(ProcessGroup& group, ReduceOp op, CallSite site)
      : group_(&group), op_(op), site_(site) {}

  void run(Tensor&& grad) override {
    const Tensor sum = grad.clone();  // Others may hold what arrived.
    group_->all_reduce(Memory::of(sum), op_, options_at(site_, "all_reduce.backward"))
        .wait_or_throw();
    send(0, Tensor(sum));
  }

 private:
  ProcessGroup* group_;
  ReduceOp op_;
  CallSite site_;
};

class AllGatherNode final : public Node {
 public:
  AllGatherNode(ProcessGroup& group, const Shape& rows, CallSite site)
      : group_(&group), rows_(rows), site_(site) {}

  void run(Tensor&& grad) override {
    Tensor own = Tensor::empty(runtime(), rows_, grad.dtype());
    group_
        ->reduce_scatter_tensor(Memory::of(own),
                                Memory::of(grad),
                                ReduceOp::kSum,
                                options_at(site_, "all_gather.backward"))
        .wait_or_throw();
    send(0, std::move(own));
  }

 private:
  ProcessGroup* group_;
  Shape rows_;
  CallSite site_;
};

Shape times(const Shape& rows, std::int32_t n_ranks) {
  std::array<std::int64_t, Shape::kMaxDims> sizes{};
  for (std::size_t i = 0; i < rows.n_dims(); ++i) sizes[i] = rows[i];
  sizes[0] *= n_ranks;
  return Shape(std::span(sizes.data(), rows.n_dims()));
}

}  // namespace

Variable all_reduce(const Variable& x, ProcessGroup& group, ReduceOp op, CallSite site) {
  LOCKSTEP_CHECK(op == ReduceOp::kSum || op == ReduceOp::kAvg,
                 "only sums and means over ranks can be differentiated");
  Tensor out = x.data().clone();
  group.all_reduce(Memory::of(out), op, options_at(site, "all_reduce")).wait_or_throw();
  if (!Node::records({&x})) return Node::attach(std::move(out), {});
  Ref<Node> node = Node::make<AllReduceNode>(x.runtime(), group, op, site);
  node->connect(0, x);
  return Node::attach(std::move(out), std::move(node));
}

Variable all_gather(const Variable& x, ProcessGroup& group, CallSite site) {
  LOCKSTEP_CHECK(x.shape().n_dims() > 0, "a scalar has no rows to gather");
  Tensor out = Tensor::empty(x.runtime(), times(x.shape(), group.size()), x.data().dtype());
  group
      .all_gather_into_tensor(Memory::of(out), Memory::of(x.data()), options_at(site, "all_gather"))
      .wait_or_throw();
  if (!Node::records({&x})) return Node::attach(std::move(out), {});
  Ref<Node> node = Node::make<AllGatherNode>(x.runtime(), group, x.shape(), site);
  node->connect(0, x);
  return Node::attach(std::move(out), std::move(node));
}

}  // namespace lockstep
