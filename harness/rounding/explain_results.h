// Two results that should be the same sum: is their difference rounding, or a bug?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/error.h"
#include "lockstep/formats/state_file.h"
#include "lockstep/harness/rounding/result_side.h"

namespace lockstep {

class JsonText;

/// What is known of two results, from the best to the worst.
enum class RoundingVerdict : std::uint8_t {
  kEqual,        ///< In every bit (-0 and 0 are equal).
  kNamedOrders,  ///< Each has the bits of orders that are known: rounding.
  kWithinBound,  ///< Each may be a sum in some order; which is not known.
  kOnlyIf,       ///< One is possible only if it was computed in another way, which is named.
  kNotJudged,    ///< They differ, and the contributions are not known.
  kImpossible,   ///< No order of adding gives one of them: a bug.
};
template <>
inline constexpr EnumNames<6> kEnumNames<RoundingVerdict> = {
    "equal", "named-orders", "within-bound", "only-if", "not-judged", "impossible"};

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
  Combination reduction = {};
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
                                    const Combination& reduction);

/// Lines for a terminal: the verdict first, then each tensor that differs, then the derivation.
std::string explanation_text(const Explanation& explanation);

/// The lines of one tensor, and its object.
std::string tensor_text(const TensorExplanation& tensor, const Combination& reduction);
void write_tensor(JsonText& out, const TensorExplanation& tensor);

/// What a verdict means, as a sentence without an end.
std::string_view sentence_of(RoundingVerdict verdict);

/// One object (docs/explain_diff.md).
void write_explanation(JsonText& out, const Explanation& explanation);

}  // namespace lockstep
