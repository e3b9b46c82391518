// Averaging parameters now and then instead of gradients always: post-local SGD.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep {

/// parameters := their mean over `group`, those without a gradient left out: one AR of all of them,
/// flat, each divided by the group's size before the sum. Recorded as outer step `step`.
///
/// Requires: one dtype, and gradients on the same parameters everywhere (not checked, as in
///     PyTorch: other sizes are a mismatch).
/// Errors: std::invalid_argument when none has a gradient; CommError.
/// Source: torch/distributed/algorithms/model_averaging/utils.py.
void average_parameters(std::span<const Variable> parameters,
                        ProcessGroup& group,
                        CallSite site = CallSite::here(),
                        std::int64_t step = 0);

/// Decides at which steps parameters are averaged, and over which ranks.
class ModelAverager {
 public:
  virtual ~ModelAverager() = default;
  ModelAverager(const ModelAverager&) = delete;
  ModelAverager& operator=(const ModelAverager&) = delete;
  ModelAverager(ModelAverager&&) = delete;
  ModelAverager& operator=(ModelAverager&&) = delete;

  /// Averages if this step is one to do so, and counts it.
  void average(std::span<const Variable> parameters, CallSite site = CallSite::here());

  std::int64_t step() const { return step_; }

  /// For resumed runs: what the checkpoint said.
  void set_step(std::int64_t step) { step_ = step; }

 protected:
  /// Errors: std::invalid_argument with PyTorch's text for a negative warm-up.
  explicit ModelAverager(std::int64_t warmup_steps);

  std::int64_t warmup_steps() const { return warmup_steps_; }

 private:
  /// The group to average over at this step (never before the warm-up's end), or null.
  virtual ProcessGroup* group_at(std::int64_t step) const = 0;

  std::int64_t warmup_steps_;
  std::int64_t step_ = 0;
};

/// Every `period` steps, counted from the end of the warm-up: that step itself is the first.
///
/// Errors: std::invalid_argument with PyTorch's text for a period below 1. A period of 1 is logged
///     as pointless.
/// Source: torch.distributed.algorithms.model_averaging.PeriodicModelAverager.
class PeriodicModelAverager final : public ModelAverager {
 public:
  PeriodicModelAverager(ProcessGroup& group, std::int64_t period, std::int64_t warmup_steps = 0);

 private:
  ProcessGroup* group_at(std::int64_t step) const override;

  ProcessGroup* group_;
  std::int64_t period_;
};

/// One level of a hierarchy: blocks of `group_size` consecutive ranks.
struct AveragingLevel {
  std::int64_t period = 1;
  std::int32_t group_size = 1;
};

/// Small groups often, large groups seldom: at a step that several periods divide, the last level
/// counts. Steps count from the start, not from the end of the warm-up, as in PyTorch.
///
/// Collective construction: every level but the last splits the group.
/// Errors: std::invalid_argument with PyTorch's texts for no level, a first period below 1, a last
///     level that is not the whole group, a size that does not divide it.
/// Source: torch HierarchicalModelAverager.
class HierarchicalModelAverager final : public ModelAverager {
 public:
  HierarchicalModelAverager(ProcessGroup& group,
                            const std::vector<AveragingLevel>& levels,
                            std::int64_t warmup_steps = 0);

 private:
  struct Level {
    std::int64_t period;
    ProcessGroup* group;
  };

  ProcessGroup* group_at(std::int64_t step) const override;

  std::vector<std::unique_ptr<ProcessGroup>> owned_;
  std::vector<Level> levels_;
};

/// A local optimizer and an averager, one after the other.
///
/// Source: torch.distributed.optim.PostLocalSGDOptimizer; Lin et al., ICLR 2020.
class PostLocalSgdOptimizer {
 public:
  /// Requires: both outlive this.
  PostLocalSgdOptimizer(optim::Optimizer& optimizer, ModelAverager& averager)
      : optimizer_(&optimizer), averager_(&averager) {}

  /// Steps, then averages if it is time to. `site` is where the collectives are called from.
  void step(CallSite site = CallSite::here()) {
    optimizer_->step(site);
    averager_->average(optimizer_->parameters(), site);
  }

  /// As Optimizer::zero_grad.
  void zero_grad(bool set_to_none = true) const { optimizer_->zero_grad(set_to_none); }

  optim::Optimizer& optimizer() const { return *optimizer_; }

  ModelAverager& averager() const { return *averager_; }

 private:
  optim::Optimizer* optimizer_;
  ModelAverager* averager_;
};

}  // namespace lockstep
