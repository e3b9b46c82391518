// Training in a narrow dtype around full precision parameters.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/reducer/comm_hook.h"

namespace lockstep {

/// Which dtypes a wrapper computes and communicates in. Source: torch _MixedPrecision.
struct MixedPrecision {
  DType param_dtype = DType::kF16;
  std::optional<DType> reduce_dtype = std::nullopt;  ///< None: param_dtype.
  std::optional<DType> buffer_dtype = std::nullopt;  ///< None: buffers stay as they are.
};

/// Lends parameters their narrow copies from the beginning of a forward to the reduction of their
/// gradients, which it is the communication hook of.
///
/// A bucket of narrow gradients is converted to the reduce dtype, summed, and then divided by N, a
/// true division. After that its parameters have their full values again, and gradients are full.
///
/// Deterministic: the arithmetic is the group's; 16-bit quotients are rounded once from f32.
/// Source: torch DistributedDataParallel, _root_copy_hook, and mixed_precision_hooks.py. Its
///     streams have no counterpart: everything happens in program order.
class MixedPrecisionHook final : public CommHook {
 public:
  /// `parameters`: all that are not ignored, frozen ones included.
  MixedPrecisionHook(std::vector<NamedVariable> parameters,
                     ProcessGroup& group,
                     MixedPrecision options);

  const MixedPrecision& options() const { return options_; }

  /// A forward begins: parameters and gradients that exist become narrow. Returns whether they had
  /// been narrow all along, since no reduction came in between.
  bool lower();

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

 private:
  class Reduced;

  struct ParameterIndex {
    const VariableState* state;
    std::size_t index;
  };

  void raise(const Variable& parameter);
  void raise_frozen();

  std::vector<NamedVariable> parameters_;
  std::vector<ParameterIndex> places_;  // Sorted by state.
  std::vector<Tensor> full_;  // By parameter: its values while it is narrow, else undefined.
  ProcessGroup* group_;
  MixedPrecision options_;
};

}  // namespace lockstep
