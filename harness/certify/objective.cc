#include "lockstep/harness/certify/objective.h"

#include <cstdint>
#include <string_view>

#include "lockstep/base/text.h"
#include "lockstep/train/job_words.h"

namespace lockstep {
namespace {

/// In the order of the enumerators that have a word.
constexpr const auto& kObjectiveWords = kEnumNames<DeclaredLoss>;
constexpr std::int64_t kMostOfWeight = 1'000'000;  // So that products of several fit.

Error wrong_weights(const std::string& text, std::int32_t n_ranks) {
  return {"the objective '" + text + "' is not one weight per rank; this job has " +
              std::to_string(n_ranks) + (n_ranks == 1 ? " rank" : " ranks") +
              ", so write that many fractions, such as 1/4,3/4 for two ranks",
          ""};
}

}  // namespace

std::string Objective::text() const {
  if (kind != ObjectiveKind::kRankWeights) {
    return std::string(kObjectiveWords[static_cast<std::size_t>(kind)]);
  }
  std::vector<std::string> weights;
  for (const Fraction& weight : by_rank) weights.push_back(weight.text());
  return join(weights, ",");
}

Result<Objective> parse_objective(const std::string& text, std::int32_t n_ranks) {
  for (std::size_t i = 0; i < kObjectiveWords.size(); ++i) {
    if (text == kObjectiveWords[i]) return Objective{static_cast<ObjectiveKind>(i), {}};
  }
  const bool is_word = text.empty() || text.find_first_of("0123456789") == std::string::npos;
  if (is_word) {
    return Error{"unknown objective '" + text + "'" +
                     alternatives(text, kObjectiveWords, "the objectives are") +
                     ", or one weight per rank",
                 ""};
  }
  std::vector<Fraction> weights;
  for (const std::string_view part : split(text, ',')) {
    const auto weight = parse_fraction(part);
    if (!weight || *weight < Fraction()) return wrong_weights(text, n_ranks);
    if (weight->numerator() > kMostOfWeight || weight->denominator() > kMostOfWeight) {
      return Error{
          "the weight " + weight->text() + " has a number above " + std::to_string(kMostOfWeight),
          ""};
    }
    weights.push_back(*weight);
  }
  if (weights.size() != static_cast<std::size_t>(n_ranks)) return wrong_weights(text, n_ranks);
  return Objective::rank_weights(std::move(weights));
}

}  // namespace lockstep
