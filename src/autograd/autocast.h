// Autocast: operations pick the dtype they compute in, while parameters keep theirs.
#pragma once

#include <cstdint>
#include <map>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// PyTorch's arguments of torch.autocast("cpu", ...), by their names.
struct AutocastOptions {
  DType dtype = DType::kBF16;  ///< Of operations in lower precision: bf16 or f16.
  bool enabled = true;
  bool cache_enabled = true;  ///< Each f32 parameter is converted once.

  bool operator==(const AutocastOptions&) const = default;
};

/// What the nested regions of one rank have in common: the innermost options, and the converted
/// parameters, which live until the outermost region ends.
class AutocastRegion {
 public:
  const AutocastOptions& options() const { return options_; }

  /// Whether a conversion of `x` to `dtype` is kept for later uses: of f32 leaves that require a
  /// gradient, to the region's dtype.
  bool keeps(const Variable& x, DType dtype) const;
  /// What `x` was converted to before; undefined if it was not. Requires: keeps().
  Variable kept(const Variable& x) const;
  void keep(const Variable& x, const Variable& converted);  ///< Until the outermost region ends.

 private:
  friend class AutocastGuard;

  struct Converted {
    Variable source;  ///< Keeps the leaf, and so its id, from being used again.
    Variable result;
  };

  AutocastOptions options_;
  std::map<std::uint32_t, Converted> cache_;  ///< By the id of the source.
};

/// Turns autocast on for its lifetime, or off inside of another region:
///
///   Variable loss;
///   {
///     const AutocastGuard autocast(rank.runtime(), {.dtype = DType::kF16});
///     loss = mse_loss(model(Variable(x)), target);  // The layers in f16, the loss in f32.
///   }
///   scaler.scale(loss).backward();  // Gradients of f32 parameters are f32.
///
/// Operations convert their operands of f32, f16 or bf16 (never f64) as PyTorch's do on the CPU:
///
///   to `dtype`  linear, conv2d, attention and self_attention
///   to f32      mse_loss, l1_loss, cross_entropy
///   as given    all others. Of two dtypes, add, sub and mul take the wider one; layer_norm and
///               batch_norm accept 16-bit rows beside f32 parameters.
///
/// A conversion is part of the graph, and its backward converts the gradient. An f32 leaf that
/// requires a gradient is converted once for all that uses it, under NoGradGuard or not, until the
/// outermost region ends; so its uses add their gradients up in 16 bits. A step inside of a region
/// therefore is not seen before the region ends, as in PyTorch. A region of the other 16-bit
/// dtype inside of one finds parameters converted to the outer dtype and is refused, as in PyTorch.
/// Backwards belong outside of the region. What a checkpoint computes again, it computes in a
/// region like that of its first run.
///
/// Requires: dtype f16 or bf16 if enabled; guards end in the reverse order of their construction.
/// Deterministic: which operands are converted depends on their dtypes alone.
/// Source: torch.autocast and the lists of its CPU backend, 2.15 (aten/src/ATen/autocast_mode.cpp).
///     A departure: PyTorch warns of another dtype and carries on without autocast.
class AutocastGuard {
 public:
  explicit AutocastGuard(Runtime& runtime, const AutocastOptions& options = {});
  ~AutocastGuard();

  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  AutocastGuard(AutocastGuard&&) = delete;
  AutocastGuard& operator=(AutocastGuard&&) = delete;

 private:
  Runtime& runtime_;
  AutocastRegion own_;        ///< Used by the outermost guard.
  AutocastOptions previous_;  ///< What the enclosing region continues with.
  bool outermost_;
};

/// The options of the region that this rank is in; outside of one, those of a disabled region.
AutocastOptions autocast_options(const Runtime& runtime);

}  // namespace lockstep
