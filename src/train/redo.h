// Micro-steps, computed a second time: this exposes hardware that computes wrong bits.
#pragma once

#include <memory>
#include <optional>

#include "lockstep/nn/module.h"
#include "lockstep/random/generator.h"
#include "lockstep/train/micro_step.h"
#include "lockstep/train/stepper.h"

namespace lockstep {

/// Repeats each micro-step on a copy of the model, from the same parameters, data and random draws,
/// and records the contributions it gets as `grad` events at "redo".
///
/// The copy has no wrapper and no hooks: nothing is communicated, and what a hook does to gradients
/// is not repeated. Buffers are not copied, since no layer reads them while it trains.
///
/// Requires: a recorder; job, context and model outlive it.
/// Deterministic: draws from copies of the model's generators, never from them.
class Redo {
 public:
  Redo(const Job& job, RankContext& context, nn::Module& model, std::int32_t wrapper);

  /// Remembers from which state the forward will draw.
  void before_forward();
  /// After the backward, before the optimizer: computes the micro-step again. `output_factor` is
  /// what the loss was multiplied by.
  void repeat(const Batch& batch, double denominator, double output_factor, Stepper& stepper);

 private:
  const Job& job_;
  RankContext& context_;
  nn::Module& model_;
  std::int32_t wrapper_;
  std::unique_ptr<nn::Module> copy_;
  std::vector<Variable> trained_;  ///< Of the copy, in the order of layout_.
  LayoutId layout_ = kNoLayout;
  std::optional<Generator> masks_;
};

}  // namespace lockstep
