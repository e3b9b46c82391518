// Loss scaling for mixed precision: a factor on the loss that adapts to overflowing gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// PyTorch's arguments, by their names.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  bool enabled = true;
};

/// Scales the loss, unscales the gradients before the step, leaves the step out when one of them is
/// not finite, and adapts the scale:
///
///   scaler.scale(loss).backward();  scaler.step(optimizer);  scaler.update();
///
/// Nothing is communicated, as in PyTorch: each rank decides by its own gradients. That agrees
/// while all gradients were all-reduced (infinities survive a sum). It does not for parameters that
/// the wrapper ignores, gradients written after the reduction and steps without a reduction: then
/// one rank skips, and the replicas drift. The trace shows it: every step is recorded with scale,
/// found_inf and skipped, and a skipped one keeps its position's `opt`.
///
/// Requires: optimizers outlive the iteration in which they are given.
/// Errors: std::runtime_error with PyTorch's text for calls out of order; ContractViolation where
///     PyTorch asserts.
/// Deterministic: the scale is a float and has PyTorch's bits; gradients are multiplied by the
///     float nearest to 1 / scale.
/// Source: torch.cuda.amp.GradScaler; Micikevicius et al., ICLR 2018.
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  /// The loss times the scale.
  Variable scale(const Variable& loss);
  /// Divides the gradients by the scale and notes whether all were finite: for clipping between
  /// backward and step. Undefined gradients are ignored.
  void unscale(Optimizer& optimizer);
  /// Unscales unless that has been done, then steps unless a gradient was not finite. Returns
  /// whether it stepped.
  bool step(Optimizer& optimizer, const CallSite& site = CallSite::here());
  /// Adapts the scale, or sets it, and ends the iteration.
  void update(std::optional<double> new_scale = std::nullopt);

  bool enabled() const { return options_.enabled; }

  /// The present scale; 1 when not enabled.
  double get_scale() const;

  /// scale, growth_factor, backoff_factor, growth_interval, _growth_tracker; empty when not
  /// enabled. Take it after update().
  std::vector<StateNumber> state() const;
  /// Errors: std::runtime_error with PyTorch's text for an empty state; std::invalid_argument for
  ///     other names. Does nothing when not enabled.
  void load_state(std::span<const StateNumber> numbers);

 private:
  enum class Stage : std::uint8_t { kReady, kUnscaled, kStepped };

  struct Seen {
    const Optimizer* optimizer = nullptr;
    Stage stage = Stage::kReady;
    std::optional<bool> found_inf{};  ///< None until a gradient was looked at.
  };

  void check_started(const char* function) const;
  Seen& seen(const Optimizer& optimizer);
  void adapt(bool found_inf);

  GradScalerOptions options_;
  float scale_;
  std::int64_t growth_tracker_ = 0;
  bool started_ = false;  ///< scale() has been called: PyTorch's scale exists from then on.
  std::vector<Seen> seen_;
};

}  // namespace lockstep::optim
