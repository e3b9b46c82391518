#include "lockstep/harness/companion/relation_laws.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lockstep/base/text.h"
#include "lockstep/harness/companion/companion.h"
#include "lockstep/harness/companion/difference_cause.h"
#include "lockstep/harness/companion/single_process.h"
#include "lockstep/harness/companion/step_values.h"

namespace lockstep {
namespace {

using StepsByRank = std::vector<std::vector<RankStep>>;

bool same_digests(const std::vector<DigestList>& a, const std::vector<DigestList>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const auto& left, const auto& right) {
        return left.layout == right.layout && std::equal(left.digests.begin(),
                                                         left.digests.end(),
                                                         right.digests.begin(),
                                                         right.digests.end());
      });
}

/// Equal gradients made other parameters: they, or the optimizers, were not equal before. Traces do
/// not say what happened to parameters between two steps.
bool moved_apart(const RankStep& a, const RankStep& b) {
  return same_digests(a.used_digests, b.used_digests) &&
         !same_digests(a.after_digests, b.after_digests);
}

/// Steps that begin with equal replicas on all ranks and the same number of micro-steps. After
/// them, what one process would have done is undefined.
std::size_t comparable_steps(const StepsByRank& ranks, std::string& why) {
  std::size_t n = ranks.front().size();
  for (const auto& steps : ranks) n = std::min(n, steps.size());
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const RankStep& first = ranks.front()[k];
      const RankStep& other = ranks[r][k];
      if (first.epoch != other.epoch) {
        why = "a step that every rank takes (one of ranks 0 and " + std::to_string(r) +
              " ran out of inputs, so their steps " + std::to_string(k) + " cannot be compared)";
        return k;
      }
      if (same_digests(first.before_digests, other.before_digests) && !moved_apart(first, other) &&
          first.micros.size() == other.micros.size()) {
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

/// Of those, the first ones of which rank 0's values were recorded.
std::size_t recorded_steps(const std::vector<RankStep>& first, std::size_t n_comparable) {
  std::size_t n = 0;
  while (n < n_comparable && first[n].has_values()) ++n;
  return n;
}

std::optional<std::size_t> first_difference(std::span<const double> got,
                                            std::span<const double> wanted,
                                            std::span<const double> bound) {
  LOCKSTEP_CHECK(got.size() == wanted.size(), "one model has one set of shapes");
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = bound.empty() ? 0.0 : bound[i];
    const bool both_nan = std::isnan(got[i]) && std::isnan(wanted[i]);
    if (!both_nan && !(std::abs(got[i] - wanted[i]) <= allowed) && got[i] != wanted[i]) return i;
  }
  return std::nullopt;
}

/// Where a law compares, for the finding's fields and text.
struct ValueLocation {
  std::int64_t step = 0;
  ComparedPoint point = ComparedPoint::kGradUsed;
  std::string tensor;
};

/// Rank 0's values there, or null: a missing gradient concerns a different law.
const std::span<const double>* values_at(const ValueLocation& place, const RankStep& step) {
  const TensorValues& values = place.point == ComparedPoint::kStep ? step.after : step.used;
  const auto found = values.find(place.tensor);
  return found == values.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> digest_at(const ValueLocation& place,
                                       const RankStep& step,
                                       const NameTable& names) {
  for (const DigestList& list :
       place.point == ComparedPoint::kStep ? step.after_digests : step.used_digests) {
    const std::span<const NameId> layout = names.layout(list.layout);
    for (std::size_t i = 0; i < layout.size() && i < list.digests.size(); ++i) {
      if (names.text(layout[i]) == place.tensor) return list.digests[i];
    }
  }
  return std::nullopt;
}

std::string message_of(const ValueLocation& place, double got, double wanted) {
  const std::string what =
      place.point == ComparedPoint::kStep ? "parameter `" : "the gradient used for `";
  return what + place.tensor + "` is " + exact(got) +
         ", but one process on the same global batch has " + exact(wanted);
}

/// Compares one tensor with the reference: rank 0 by its values, the others by their digests, which
/// must be rank 0's.
std::optional<Finding> compare(const ValueLocation& place,
                               const StepsByRank& ranks,
                               const ReferenceValues& reference,
                               const NameTable& names) {
  const auto k = static_cast<std::size_t>(place.step);
  const std::span<const double>* values = values_at(place, ranks.front()[k]);
  if (values == nullptr) return std::nullopt;
  const auto element = first_difference(*values, reference.values, reference.bound);
  if (!element) return std::nullopt;
  Finding finding;
  finding.law = "single-process-equal";
  finding.event = name_of(place.point);
  finding.tensor = place.tensor;
  finding.step = place.step;
  finding.element = static_cast<std::int64_t>(*element);
  finding.message = message_of(place, (*values)[*element], reference.values[*element]);
  const auto digest = digest_at(place, ranks.front()[k], names);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (digest_at(place, ranks[r][k], names) == digest)
      finding.ranks.push_back(static_cast<Rank>(r));
  }
  return finding;
}

/// The likely cause of a parameter that differs although the step's gradients were right.
Cause cause_of_update(const Job& job,
                      const RankStep& step,
                      const std::vector<ReferenceTensor>& tensors,
                      const std::string& parameter) {
  const bool has_reference =
      std::any_of(tensors.begin(), tensors.end(), [&](const ReferenceTensor& tensor) {
        return tensor.point == ComparedPoint::kGradUsed && tensor.name == parameter;
      });
  if (step.used.contains(parameter) && !has_reference) return Cause::kUnusedNoneVsZero;
  return job.scheduler.times != job.scheduler.declared_times ? Cause::kLrStepsTimesWorld
                                                             : Cause::kNone;
}

/// Adds the likely cause to what was found in a step.
void explain(const Job& job,
             const StepsByRank& ranks,
             const std::vector<ReferenceTensor>& tensors,
             const NameTable& names,
             Finding& finding) {
  if (finding.event != name_of(ComparedPoint::kGradUsed)) {
    const auto k = static_cast<std::size_t>(*finding.step);
    finding.cause = cause_of_update(job, ranks.front()[k], tensors, finding.tensor);
    return;
  }
  std::map<std::string, std::vector<double>> reference;
  for (const ReferenceTensor& tensor : tensors) {
    if (tensor.point == ComparedPoint::kGradUsed) reference[tensor.name] = tensor.reference.values;
  }
  DifferenceCause found = explain_difference(
      {job, ranks, names, static_cast<std::size_t>(*finding.step), std::move(reference)});
  if (!found.message.empty()) finding.message += ": " + found.message;
  finding.cause = found.cause;
}

/// What was run, and how much of it can be compared.
struct Compared {
  const Job& job;
  const StepsByRank& ranks;
  std::size_t n_steps = 0;
};

/// Runs through the steps and stops at the first difference.
void compare_steps(const Compared& run,
                   SingleProcess& single,
                   const NameTable& names,
                   LawResult& result) {
  for (std::size_t k = 0; k < run.n_steps; ++k) {
    const auto step = static_cast<std::int64_t>(k);
    const std::vector<ReferenceTensor> tensors = single.step(k);
    if (!single.failure().empty()) {
      result.missing = single.failure();
      return;
    }
    for (const ReferenceTensor& tensor : tensors) {
      const ValueLocation place = {step, tensor.point, tensor.name};
      std::optional<Finding> finding = compare(place, run.ranks, tensor.reference, names);
      ++result.n_checked;
      if (!finding) continue;
      explain(run.job, run.ranks, tensors, names, *finding);
      result.findings.push_back(std::move(*finding));
      return;
    }
  }
}

/// Whether rank 0 trains parameters that its wrapper leaves alone: each rank then has its own.
bool trains_ignored(const MemoryTrace& trace) {
  std::vector<NameId> ignored;
  for (const Event& event : trace.events(Rank{0})) {
    if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      const std::span<const NameId> names = trace.names().layout(wrap->ignored);
      ignored.insert(ignored.end(), names.begin(), names.end());
    } else if (const auto* step = std::get_if<StepEvent>(&event.body); step && !ignored.empty()) {
      const std::span<const NameId> names = trace.names().layout(step->layout);
      return std::find_first_of(names.begin(), names.end(), ignored.begin(), ignored.end()) !=
             names.end();
    }
  }
  return false;
}

/// The rows of rank 0: those with these ids, or all when rows are counted.
bool is_own_row(const Job& job, const std::set<std::int64_t>& ids, std::int64_t id) {
  return ids.empty() ? id >= 0 && id < job.train->size() : ids.contains(id);
}

/// Whether ranks trained on rows that rank 0 does not have: they hold out others, or have other
/// data.
bool trains_foreign_rows(const Job& job, const StepsByRank& ranks) {
  const std::set<std::int64_t> ids(job.train_ids.begin(), job.train_ids.end());
  const auto consumes_others = [&](const MicroData& micro) {
    return !std::all_of(micro.ids.begin(), micro.ids.end(), [&](std::int64_t id) {
      return is_own_row(job, ids, id);
    });
  };
  return std::any_of(ranks.begin(), ranks.end(), [&](const std::vector<RankStep>& steps) {
    return std::any_of(steps.begin(), steps.end(), [&](const RankStep& step) {
      return std::any_of(step.micros.begin(), step.micros.end(), consumes_others);
    });
  });
}

/// What the job has that one process would draw or keep differently; empty if nothing.
std::string incomparable(const Job& job, const StepsByRank& ranks, const MemoryTrace& trace) {
  if (job.model.kind == ModelKind::kGpt && job.model.gpt.dropout > 0.0) {
    return "a model without dropout (one process would draw different masks)";
  }
  if (job.loader.augment.stream != AugmentStream::kNone) {
    return "rows without random augmentation (one process would draw different ones)";
  }
  if (trains_foreign_rows(job, ranks)) {
    return "one training set for all ranks (some train on rows that rank 0 does not have)";
  }
  if (trains_ignored(trace)) {
    return "a model that is replicated as a whole (each rank trains ignored parameters on its own)";
  }
  return "";
}

}  // namespace

LawResult check_single_process_equal(const Scenario& scenario, const MemoryTrace& trace) {
  LawResult result;
  result.law = "single-process-equal";
  StepsByRank ranks;
  for (std::int32_t r = 0; r < scenario.n_ranks; ++r) {
    ranks.push_back(steps_of(trace, static_cast<Rank>(r)));
  }
  std::string why;
  const std::size_t n_comparable = comparable_steps(ranks, why);
  const Job& job = *scenario.jobs.front();
  const std::size_t n_steps = recorded_steps(ranks.front(), n_comparable);
  if (n_comparable > 0 && n_steps == 0) why = "the values of a step (this run recorded none)";
  if (std::string missing = incomparable(job, ranks, trace); !missing.empty()) {
    result.verdict = Verdict::kNotCheckable;
    result.missing = std::move(missing);
    return result;
  }
  if (n_steps > 0) {
    const auto single = make_single_process(job, ranks, n_steps);
    compare_steps({job, ranks, n_steps}, *single, trace.names(), result);
  }
  if (n_steps > 0 && n_steps < n_comparable) {
    result.advice.push_back({"A-coverage",
                             "single-process-equal compared the first " + std::to_string(n_steps) +
                                 " of " + std::to_string(n_comparable) + " steps",
                             AdviceSubject::kChecks});
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
