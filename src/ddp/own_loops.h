// Loops that reduce gradients by themselves: what they train is recorded as a wrapper that reduces
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/ddp/shard_factors.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// Watches what one rank sends, and which parameters its optimizers step with.
///
/// A program that sends, before an optimizer's very first step, the gradients of its parameters to all
/// ranks has said what its replicas are:
///
///     model(x), backward   all_reduce(p.grad)...   step   | backward   all_reduce   step   | ...
///     not watched          remembered              begins | inc        -            used   | ...
///
/// From the next backward on they are recorded as those of a wrapper whose backward passes never reduce,
/// and laws hold the gradients that a step uses to the mean of what the ranks' backward passes added.
/// Where ranks share the steps out, each with an optimizer of some parameters, the replicas are of all
/// those of the model that were sent and that no optimizer of this rank has.
/// The gradients may also be sent in buckets, as one piece or several. If the smaller part of them is not
/// sent, by parameters or by elements, these stay parameters of no wrapper. Before a step for which fewer
/// elements were sent the loop ends: from there on ranks may train alone. Where a model is wrapped nothing
/// begins.
class OwnLoops final : public OwnReductions {
 public:
  /// Requires: the runtime has a recorder, which outlives it.
  OwnLoops(Runtime& runtime, std::int32_t n_ranks);
  ~OwnLoops() override;
  OwnLoops(const OwnLoops&) = delete;
  OwnLoops& operator=(const OwnLoops&) = delete;
  OwnLoops(OwnLoops&&) = delete;
  OwnLoops& operator=(OwnLoops&&) = delete;

  void on_sent(const Sent& sent) override;
  void on_received(const Sent& received) override;
  void on_shard_received(const Sent& received) override;
  void before_step(std::span<const Variable> parameters) override;
  void after_step(std::span<const Variable> parameters) override;

 private:
  class Loop;

  /// What was sent in one call, as far as steps ask for it.
  struct Piece {
    const void* data;
    std::int64_t n_elems;
    bool adds;
  };

  bool any_wrapped() const;
  bool has_stepped(std::span<const Variable> parameters) const;
  /// Of a model whose parameters the ranks' optimizers share out, what a wrapper would have: this rank's and
  /// those of the others. Nothing where no module has all of them, which would say what they are called.
  static std::vector<NamedVariable> model_shared_out(std::span<const Variable> own,
                                                     std::span<const Variable> of_others);
  /// Parameters in no optimizer of this rank, whose gradients were sent all the same.
  std::vector<Variable> sent_for_others() const;
  bool is_sent(const Variable& parameter) const;
  /// As sums of buffers that are as large as the next parameters, from the first or the last on, until none is left.
  bool are_sent_in_parts(std::span<const NamedVariable> parameters) const;
  /// Of what a first step may have used, what was reduced, or nothing.
  std::vector<NamedVariable> reduced_of(const std::vector<NamedVariable>& free) const;
  void forget_sent_of(std::span<const Variable> parameters);

  void record_shard_factor(std::span<const Variable> parameters);

  Runtime* runtime_;
  std::int32_t n_ranks_;
  ShardFactors shards_;
  std::vector<Piece> sent_;                               // That no step has used.
  std::optional<std::vector<NamedVariable>> shared_out_;  // By a first step that is under way.
  std::set<std::uint32_t> stepped_;                       // Parameters, by id.
  std::vector<std::unique_ptr<Loop>> loops_;
  std::int32_t n_begun_ = 0;
  bool trains_beside_ = false;  // Steps of no loop: they count for themselves.
};

}  // namespace lockstep
