// The model of a job, and what averages its gradients.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/comm/rank_context.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/nn/module.h"
#include "lockstep/reducer/comm_hook.h"
#include "lockstep/train/job.h"
#include "lockstep/train/wrapping/manual_average.h"

namespace lockstep {

/// A rank's model, from its initial values on. wrap() puts the wrapper of `ddp` around it, with its
/// communication hook, or a hand-written average where the job has none.
///
/// Requires: the job and the context outlive it.
/// Deterministic: initial values follow from the job and the rank.
class WrappedModel {
 public:
  WrappedModel(const Job& job, RankContext& context);

  /// Collective. Errors: what DDP's constructor and the hook's registration throw.
  void wrap();

  bool is_wrapped() const { return ddp_ != nullptr || manual_ != nullptr; }

  nn::Module& model() { return *model_; }

  /// Null before wrap() and in hand-written loops.
  DistributedDataParallel<nn::Module>* ddp() { return ddp_.get(); }

  /// Null unless the loop is hand-written.
  ManualAverage* manual() { return manual_.get(); }

  CommHook* hook() { return hook_.get(); }  ///< Null: none.

  /// As traces count wrappers. Requires: is_wrapped().
  std::int32_t wrapper() const { return ddp_ ? ddp_->wrapper() : manual_->wrapper(); }

  /// One micro-step's forward: past the wrapper, through it without a reduction in the backward, or
  /// through it. Hand-written loops know only one way.
  Variable forward(const Variable& x, bool through_wrapper, bool synchronizes);

 private:
  void register_hook();

  const Job& job_;
  RankContext& context_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<CommHook> hook_;  // Outlives ddp_.
  std::unique_ptr<DistributedDataParallel<nn::Module>> ddp_;
  std::unique_ptr<ManualAverage> manual_;
};

}  // namespace lockstep
