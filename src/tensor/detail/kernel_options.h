// What operations of Kernels are given besides their operands.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"

namespace lockstep {

/// Element-wise reductions over ranks, as c10d names them.
enum class ReduceOp : std::uint8_t {
  kSum,
  kAvg,
  kProduct,
  kMin,
  kMax,
  kPremulSum,
  kBand,
  kBor,
  kBxor
};
template <>
inline constexpr EnumNames<9> kEnumNames<ReduceOp> = {
    "sum", "avg", "product", "min", "max", "premul_sum", "band", "bor", "bxor"};

/// What to do with the per-sample values of a loss.
enum class Reduction : std::uint8_t { kMean, kSum };

/// Hyper-parameters of one SGD update (PyTorch's names and order of operations).
struct SgdUpdate {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool maximize = false;
  bool first_step = false;  ///< The momentum buffer does not exist yet: it becomes the gradient.
};

/// Hyper-parameters of one update of Adam or AdamW (PyTorch's names).
struct AdamUpdate {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;  ///< AdamW: the decay shrinks the parameter and stays out of the moments.
  bool amsgrad = false;
  bool maximize = false;
  bool lerp = false;  ///< First moment by lerp (PyTorch 2), else by mul and add (1.13).
  double step = 1.0;  ///< Of this update, from 1.
};

struct AdagradUpdate {
  double lr = 1e-2;
  double lr_decay = 0.0;
  double weight_decay = 0.0;
  double eps = 1e-10;
  bool maximize = false;
  double step = 1.0;  ///< Of this update, from 1.
};

struct RmspropUpdate {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
  bool maximize = false;
  bool lerp = false;  ///< Mean gradient by lerp (PyTorch 2), else by mul and add (1.13).
};

}  // namespace lockstep
