// A bug that a scenario plants: what it does, on which ranks, at which place of the loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {

/// Ranks a rule applies to: all, or a list.
struct RankSet {
  bool all = true;
  std::vector<std::int32_t> ranks;
  /// Whether `rank` is one of them.
  bool contains(std::int32_t rank) const;
};

/// Where in the loop a bug strikes.
struct BugPlace {
  std::optional<std::int64_t> step;   ///< Absent: every time.
  std::optional<std::int64_t> micro;  ///< Of a forward or backward. Absent: each of the step.
  LoopPoint event = LoopPoint::kStep;
  bool after = true;
};

enum class BugKind : std::uint8_t {
  kBypassWrapper,
  kExtraCollective,
  kFlipBit,
  kNoSetEpoch,
  kScaleGradient,
  kSkipStep,
  kThrow,
  kWriteTensor,
  kZeroMissingGradients,
};
template <>
inline constexpr EnumNames<9> kEnumNames<BugKind> = {"bypass-wrapper",
                                                     "extra-collective",
                                                     "flip-bit",
                                                     "no-set-epoch",
                                                     "scale-gradient",
                                                     "skip-step",
                                                     "throw",
                                                     "write-tensor",
                                                     "zero-missing-gradients"};

/// Which side of a tensor a write hits.
enum class TensorSide : std::uint8_t { kValue, kGrad };
template <>
inline constexpr EnumNames<2> kEnumNames<TensorSide> = {"value", "grad"};

// What each kind of bug needs to know.
namespace bug {

struct BypassWrapper {};

struct ExtraCollective {
  CollectiveOp op = CollectiveOp::kBarrier;  ///< Or kAllReduce.
  std::string site;                          ///< Where it seems to be called: "save.py:12".
};

/// Flips a bit of what one backward computes for a parameter.
struct FlipBit {
  std::string tensor;
  std::int64_t element = 0;
  std::int64_t bit = 0;  ///< Of the element, 0 = the lowest.
};

struct NoSetEpoch {};

struct ScaleGradient {
  std::string tensor;  ///< Empty: all of them.
  double factor = 1.0;
};

struct SkipStep {};

struct Throw {
  std::string message;
};

struct WriteTensor {
  std::string tensor;  ///< A parameter or buffer.
  TensorSide part = TensorSide::kValue;
  std::optional<std::int64_t> element;  ///< One element instead of all.
  double value = 0.0;
};

struct ZeroMissingGradients {
  std::string tensor;  ///< Empty: all of them.
};

}  // namespace bug

/// In the order of BugKind.
using BugEffect = std::variant<bug::BypassWrapper,
                               bug::ExtraCollective,
                               bug::FlipBit,
                               bug::NoSetEpoch,
                               bug::ScaleGradient,
                               bug::SkipStep,
                               bug::Throw,
                               bug::WriteTensor,
                               bug::ZeroMissingGradients>;
static_assert(std::variant_size_v<BugEffect> == kEnumNames<BugKind>.size());

/// Of a bug of this kind that says no more.
BugEffect effect_of(BugKind kind);

/// The tensor that the bug acts on, which may be empty; null: it acts on none.
std::string* tensor_of(BugEffect& effect);
const std::string* tensor_of(const BugEffect& effect);

/// A bug as declared; harness/bugs/ turns it into a LoopHook.
struct BugSpec {
  BugEffect effect;
  RankSet ranks;
  BugPlace at;
  std::string where;  ///< file:line:column of the declaration.

  BugKind kind() const { return static_cast<BugKind>(effect.index()); }
};

}  // namespace lockstep
