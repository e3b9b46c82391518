#pragma once

#include <cstdint>

#include "lockstep/nn/linear.h"
#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// Which heads a forward pass uses.
enum class Heads : std::uint8_t { kA, kB, kBoth };

/// Widths of the features, the trunk and each head.
struct TwoHeadSizes {
  std::int64_t in = 1;
  std::int64_t hidden = 1;
  std::int64_t out = 1;
};

/// relu(trunk(x)) seen by head A, by head B, or by both (their sum): x (B, in) -> (B, out).
/// Submodules "trunk", "head_a", "head_b", all Linear.
///
/// The smallest model with parameters that a step may leave unused.
class TwoHead final : public Module {
 public:
  TwoHead(Runtime& runtime, TwoHeadSizes sizes, LinearOptions options = {});

  /// The heads that later forwards use. Starts with A.
  void use(Heads heads) { heads_ = heads; }

  Heads heads() const { return heads_; }

  Variable forward(const Variable& x) override;

 private:
  Linear trunk_;
  Linear head_a_;
  Linear head_b_;
  Heads heads_ = Heads::kA;
};

}  // namespace lockstep::nn
