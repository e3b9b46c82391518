// Two results that should be the same sum: is their difference rounding, or a bug?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/words.h"
#include "lockstep/formats/state_file.h"
#include "lockstep/harness/rounding/order_search.h"
#include "lockstep/harness/rounding/sum_bound.h"

namespace lockstep {

class JsonText;

/// What is known of two results, from the best to the worst.
enum class RoundingVerdict : std::uint8_t {
  kEqual,        ///< In every bit (-0 and 0 are equal).
  kNamedOrders,  ///< Each has the bits of orders that are known: rounding.
  kWithinBound,  ///< Each may be a sum in some order; which is not known.
  kNotJudged,    ///< They differ; the contributions are not known, or some are not finite.
  kImpossible,   ///< No order of adding gives one of them: a bug.
};
template <>
inline constexpr WordTable<5> kWords<RoundingVerdict> = {
    "equal", "named-orders", "within-bound", "not-judged", "impossible"};

/// One of the two results beside its contributions.
struct ResultSide {
  std::optional<std::vector<OrderRun>> runs;  ///< Absent: some element has no known order.
  std::int64_t n_outside = 0;                 ///< Elements that no order gives.
  /// The element that is furthest outside of its bound, or else closest to it: distance over radius.
  std::int64_t worst = 0;
  double ratio = 0.0;
};

/// An element that no order gives, with all that shows it.
struct ImpossibleElement {
  bool is_left = false;
  std::int64_t element = 0;
  double result = 0.0;
  std::vector<double> contributions;
  SumBound bound;
  double distance = 0.0;  ///< Of the result from the exact one.
};

struct TensorExplanation {
  std::string tensor;
  ElementType type = ElementType::kF32;
  RoundingVerdict verdict = RoundingVerdict::kEqual;
  std::int64_t n_elements = 0;
  std::int64_t n_different = 0;
  std::int64_t widest = 0;              ///< The element with the most numbers between the two.
  std::uint64_t ulps = 0;               ///< There.
  std::optional<ResultSide> left = {};  ///< With contributions.
  std::optional<ResultSide> right = {};
  std::optional<ImpossibleElement> impossible = {};  ///< The worst one.
};

struct Explanation {
  std::int32_t n_contributions = 0;
  ResultKind reduction = ResultKind::kSum;
  std::vector<TensorExplanation> tensors;

  /// Of the worst tensor.
  RoundingVerdict verdict() const;
};

/// Explains each tensor of `left` beside the one of the same name in `right`.
///
/// `contributions`: one list of tensors per rank, or none at all.
/// Errors: no tensor, a tensor that one file lacks, of another type or size; a type other than
///     f16, bf16, f32 and f64; one contribution alone.
/// Deterministic: a function of the bytes alone.
Result<Explanation> explain_results(const std::vector<StoredTensor>& left,
                                    const std::vector<StoredTensor>& right,
                                    const std::vector<std::vector<StoredTensor>>& contributions,
                                    ResultKind reduction);

/// Lines for a terminal: the verdict first, then each tensor that differs, then the derivation.
std::string explanation_text(const Explanation& explanation);

/// One object (docs/explain_diff.md).
void write_explanation(JsonText& out, const Explanation& explanation);

}  // namespace lockstep
