#include "lockstep/scenario/relation_laws.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/scenario/companion.h"
#include "lockstep/scenario/single_process.h"
#include "lockstep/scenario/step_values.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20U;
/// Values are recorded at inc, pre, post, used and step, as doubles.
constexpr std::int64_t kBytesAnElement = 40;

using StepsByRank = std::vector<std::vector<RankStep>>;

bool same_values(const TensorValues& a, const TensorValues& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

/// Steps that begin with equal replicas on all ranks and the same number of micro-steps. Behind
/// them the question what one process would have done has no answer.
std::size_t comparable_steps(const StepsByRank& ranks, std::string& why) {
  std::size_t n = ranks.front().size();
  for (const auto& steps : ranks) n = std::min(n, steps.size());
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const RankStep& first = ranks.front()[k];
      const RankStep& other = ranks[r][k];
      if (same_values(first.before, other.before) && first.micros.size() == other.micros.size()) {
        continue;
      }
      why = "a run whose replicas are equal as step " + std::to_string(k) + " begins (rank " +
            std::to_string(r) + " differs, so there is no one model to compare with)";
      return k;
    }
  }
  if (n == 0) why = "an optimizer step that every rank finishes";
  return n;
}

std::optional<std::size_t> first_difference(const std::vector<double>& got,
                                            const std::vector<double>& wanted,
                                            const std::vector<double>& bound) {
  LOCKSTEP_CHECK(got.size() == wanted.size(), "one model has one set of shapes");
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = bound.empty() ? 0.0 : bound[i];
    const bool both_nan = std::isnan(got[i]) && std::isnan(wanted[i]);
    if (!both_nan && !(std::abs(got[i] - wanted[i]) <= allowed) && got[i] != wanted[i]) return i;
  }
  return std::nullopt;
}

/// Where a law looks, for the finding's fields and words.
struct Place {
  std::int64_t step = 0;
  std::string event;  ///< "grad.used" | "step"
  std::string tensor;
};

/// What `rank` has there, or null: a missing gradient is another law's business.
const std::vector<double>* values_at(const Place& place, const std::vector<RankStep>& rank) {
  const RankStep& step = rank[static_cast<std::size_t>(place.step)];
  const TensorValues& values = place.event == "step" ? step.after : step.used;
  const auto found = values.find(place.tensor);
  return found == values.end() ? nullptr : &found->second;
}

std::string message_of(const Place& place, double got, double wanted) {
  const std::string what = place.event == "step" ? "parameter `" : "the gradient used for `";
  return what + place.tensor + "` is " + exact(got) +
         " where one process on the same global batch has " + exact(wanted);
}

/// Compares one tensor on every rank with the reference; a finding names the ranks that differ.
std::optional<Finding> compare(const Place& place,
                               const StepsByRank& ranks,
                               const ReferenceValues& reference) {
  Finding finding;
  finding.law = "single-process-equal";
  finding.event = place.event;
  finding.tensor = place.tensor;
  finding.step = place.step;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<double>* values = values_at(place, ranks[r]);
    const auto i = values == nullptr ? std::nullopt
                                     : first_difference(*values, reference.values, reference.bound);
    if (!i) continue;
    if (finding.ranks.empty()) {
      finding.element = static_cast<std::int64_t>(*i);
      finding.message = message_of(place, (*values)[*i], reference.values[*i]);
    }
    finding.ranks.push_back(static_cast<Rank>(r));
  }
  if (finding.ranks.empty()) return std::nullopt;
  return finding;
}

/// Runs through the steps and stops at the first difference.
void compare_steps(const StepsByRank& ranks,
                   std::size_t n_steps,
                   SingleProcess& single,
                   LawResult& result) {
  for (std::size_t k = 0; k < n_steps; ++k) {
    const auto step = static_cast<std::int64_t>(k);
    const std::vector<ReferenceTensor> tensors = single.step(k);
    if (!single.failure().empty()) {
      result.missing = single.failure();
      return;
    }
    for (const ReferenceTensor& tensor : tensors) {
      const Place place = {step, tensor.event, tensor.name};
      std::optional<Finding> finding = compare(place, ranks, tensor.reference);
      ++result.n_checked;
      if (!finding) continue;
      result.findings.push_back(std::move(*finding));
      return;
    }
  }
}

}  // namespace

std::int64_t recordable_steps(const Scenario& scenario) {
  const std::int64_t a_step = std::max<std::int64_t>(
      1, n_parameters(scenario.jobs.front()->model) * kBytesAnElement * scenario.n_ranks);
  return kMaxBytes / a_step;
}

LawResult check_single_process_equal(const Scenario& scenario, const MemoryTrace& trace) {
  LawResult result;
  result.law = "single-process-equal";
  StepsByRank ranks;
  for (std::int32_t r = 0; r < scenario.n_ranks; ++r) {
    ranks.push_back(steps_of(trace, static_cast<Rank>(r)));
  }
  std::string why;
  const std::size_t n_steps = comparable_steps(ranks, why);
  if (n_steps > 0) {
    const auto single = make_single_process(*scenario.jobs.front(), ranks, n_steps);
    compare_steps(ranks, n_steps, *single, result);
  }
  if (!result.findings.empty()) {
    result.verdict = Verdict::kBroken;
  } else if (result.n_checked == 0) {
    result.verdict = Verdict::kNotCheckable;
    if (result.missing.empty()) result.missing = why;
  }
  return result;
}

}  // namespace lockstep
