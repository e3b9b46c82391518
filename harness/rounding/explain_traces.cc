#include "lockstep/harness/rounding/explain_traces.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <span>

#include "lockstep/compare/first_difference.h"
#include "lockstep/harness/rounding/traced_reductions.h"

namespace lockstep {

namespace {

/// One rank's result of a reduction, with what all ranks gave.
struct Judged {
  const TracedReduction& reduction;
  const TracedTensor& got;
};

StoredTensor stored(const std::string& name,
                    const FloatFormat& format,
                    std::span<const double> values) {
  StoredTensor tensor{.name = name, .type = format.type()};
  tensor.sizes = {std::ssize(values)};
  const auto size = static_cast<std::size_t>(size_of(format.type()));
  tensor.bytes.resize(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = format.bits_of(values[i]);
    std::memcpy(tensor.bytes.data() + i * size, &bits, size);
  }
  return tensor;
}

/// The contributions as files would hold them; absent: some values were not recorded.
std::optional<std::vector<std::vector<StoredTensor>>> contributions_of(const Judged& judged) {
  if (!judged.got.values) return std::nullopt;
  const std::size_t n_elements = judged.got.values->size();
  const std::vector<double> zeros(n_elements);
  std::vector<std::vector<StoredTensor>> list;
  for (const TracedPart& part : judged.reduction.parts) {
    if (part.given && !part.given->values) return std::nullopt;
    const std::span<const double> values =
        part.given ? *part.given->values : std::span<const double>(zeros);
    if (values.size() != n_elements) return std::nullopt;
    list.push_back({stored(judged.reduction.tensor, judged.reduction.format, values)});
  }
  return list;
}

/// Whether the sketches of a result and of its contributions contradict each other, under every way of
/// computing that is known.
bool sketches_exclude(const Judged& judged, const Combination& combination) {
  const TracedReduction& one = judged.reduction;
  if (!judged.got.sketch) return false;
  Sketch given;
  for (const TracedPart& part : one.parts) {
    if (!part.given) continue;
    if (!part.given->sketch || part.given->n_elems != judged.got.n_elems) return false;
    given.l1 += part.given->sketch->l1;
    for (std::size_t j = 0; j < given.sums.size(); ++j)
      given.sums[j] += part.given->sketch->sums[j];
  }
  const auto n = one.parts.size();
  const auto n_elems = static_cast<double>(judged.got.n_elems);
  const double factor = combination.factor(n);
  const Arithmetic plain{.format = one.format};
  double radius = radius_of_total(n, n_elems, given.l1, plain, combination);
  for (const Arithmetic& each : other_ways(one.format)) {
    radius = std::max(radius, radius_of_total(n, n_elems, given.l1, each, combination));
  }
  // What the sketches themselves rounded, in f64: each of their sums, and those over ranks here.
  const double own = (n_elems + static_cast<double>(n) + 8.0) * 0x1p-51 *
                     (std::abs(factor) * given.l1 + judged.got.sketch->l1);
  for (std::size_t j = 0; j < given.sums.size(); ++j) {
    const double apart = std::abs(judged.got.sketch->sums[j] - factor * given.sums[j]);
    if (std::isfinite(apart) && apart > radius + own) return true;
  }
  return false;
}

/// Of a mean and of a sum, what was asked for, or both.
std::vector<Combination> candidates(const std::optional<Combination>& asked) {
  if (asked) return {*asked};
  return {{ResultKind::kMean}, {ResultKind::kSum}};
}

std::string why_not_judged(const TracedReduction& reduction) {
  if (reduction.hook == HookEffect::kOther)
    return "a communication hook computes something else here";
  if (!reduction.is_whole()) {
    return fmt::format("{} of {} ranks recorded it", reduction.parts.size(), reduction.n_expected);
  }
  return {};
}

ReductionExplanation described(const TracedReduction& reduction, const char* which) {
  ReductionExplanation explained{
      .at = reduction.at,
      .ranks = reduction.members,
      .which = which,
      .n_contributions = static_cast<std::int32_t>(reduction.parts.size()),
      .tensor = reduction.tensor};
  explained.note = why_not_judged(reduction);
  return explained;
}

/// What a hook that sends less than the numbers leaves of them (quantized, of low rank) is not known here.
void pardon(const TracedReduction& reduction, ReductionExplanation& explained) {
  const bool compresses = reduction.hook == HookEffect::kRounded;
  if (!compresses || explained.verdict != RoundingVerdict::kImpossible) return;
  explained.verdict = RoundingVerdict::kNotJudged;
  explained.note = "a communication hook sends less than the gradients here";
  explained.values.reset();
}

constexpr const char* kNoValues = "its values were not recorded";

/// One of the candidates, by values where both results and all contributions have them; sketches say less.
ReductionExplanation tried(const Judged& left,
                           const Judged& right,
                           const char* which,
                           const Combination& combination) {
  ReductionExplanation one = described(left.reduction, which);
  one.kind = combination.kind;
  const auto contributions = contributions_of(left);
  const bool has_values =
      contributions && right.got.values && right.got.values->size() == left.got.values->size();
  if (has_values) {
    const FloatFormat& format = left.reduction.format;
    const auto result = explain_results({stored(one.tensor, format, *left.got.values)},
                                        {stored(one.tensor, format, *right.got.values)},
                                        *contributions,
                                        combination);
    one.values = result.value().tensors.front();
    one.verdict = one.values->verdict;
  } else if (sketches_exclude(left, combination) || sketches_exclude(right, combination)) {
    one.verdict = RoundingVerdict::kImpossible;
    one.note =
        "its sketch differs from those of its contributions by more than any summation order can";
  } else {
    one.note = kNoValues;
  }
  pardon(left.reduction, one);
  return one;
}

/// Explains two results, which are one result twice where a single trace is judged, of what `left` says was
/// added.
ReductionExplanation explained(const Judged& left,
                               const Judged& right,
                               const char* which,
                               const std::optional<Combination>& asked) {
  ReductionExplanation best = described(left.reduction, which);
  if (!best.note.empty() || best.n_contributions < 2) return best;
  const std::vector<Combination> list = candidates(asked);
  best = tried(left, right, which, list.front());
  for (std::size_t i = 1; i < list.size(); ++i) {
    ReductionExplanation other = tried(left, right, which, list[i]);
    if (other.verdict < best.verdict) best = std::move(other);
  }
  return best;
}

bool differ(const TracedTensor& left, const TracedTensor& right) {
  if (left.digest != 0 && right.digest != 0) return left.digest != right.digest;
  if (!left.values || !right.values) return false;
  return !std::ranges::equal(*left.values, *right.values, [](double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
  });
}

/// Two traces, reduction by reduction.
class ExplainingTraces {
 public:
  ExplainingTraces(const MemoryTrace& left,
                   const MemoryTrace& right,
                   const std::optional<Combination>& combination)
      : left_(reductions_of(left)), right_(reductions_of(right)), combination_(combination) {}

  TracesExplanation run();

 private:
  void compare_all();
  bool compare(const TracedReduction& left, const TracedReduction& right);
  void judge(const TracedReduction& reduction, const char* which);
  void add_suspect(ReductionExplanation one);

  std::vector<TracedReduction> left_;
  std::vector<TracedReduction> right_;
  std::optional<Combination> combination_;
  TracesExplanation found_;
};

/// True: their results differ, and the search is over.
bool ExplainingTraces::compare(const TracedReduction& left, const TracedReduction& right) {
  const std::size_t n = std::min(left.parts.size(), right.parts.size());
  std::optional<std::size_t> part;
  bool same_given = left.parts.size() == right.parts.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (!part && differ(left.parts[i].got, right.parts[i].got)) part = i;
    const auto& a = left.parts[i].given;
    const auto& b = right.parts[i].given;
    same_given = same_given && a.has_value() == b.has_value() && (!a || !differ(*a, *b));
  }
  if (!part) return false;
  found_.parting = same_given ? Parting::kReduction : Parting::kContributions;
  const Judged one{left, left.parts[*part].got};
  const Judged other{right, right.parts[*part].got};
  found_.first = same_given ? explained(one, other, "both traces", combination_)
                            : described(left, "both traces");
  return true;
}

// Both lists are sorted alike.
void ExplainingTraces::compare_all() {
  auto right = right_.begin();
  for (const TracedReduction& left : left_) {
    while (right != right_.end() && comes_before(*right, left)) ++right;
    const bool is_same = right != right_.end() && !comes_before(left, *right);
    if (is_same && compare(left, *right)) return;
  }
}

void ExplainingTraces::add_suspect(ReductionExplanation one) {
  const bool suspect =
      one.verdict == RoundingVerdict::kImpossible || one.verdict == RoundingVerdict::kOnlyIf;
  if (!suspect) return;
  ++found_.n_suspects;
  found_.verdict = std::max(found_.verdict, one.verdict);
  if (found_.suspects.size() < TracesExplanation::kMostListed) {
    found_.suspects.push_back(std::move(one));
  }
}

/// Each result that some rank has, beside the contributions of its own trace.
void ExplainingTraces::judge(const TracedReduction& reduction, const char* which) {
  ++found_.n_reductions;
  const TracedTensor* last = nullptr;
  for (const TracedPart& part : reduction.parts) {
    if (last != nullptr && !differ(*last, part.got)) continue;
    const Judged judged{reduction, part.got};
    ReductionExplanation one = explained(judged, judged, which, combination_);
    if (last == nullptr && one.values) ++found_.n_judged;
    if (last == nullptr && one.note == kNoValues) ++found_.n_valueless;
    last = &part.got;
    add_suspect(std::move(one));
  }
}

TracesExplanation ExplainingTraces::run() {
  compare_all();
  for (const TracedReduction& each : left_) judge(each, "the first trace");
  for (const TracedReduction& each : right_) judge(each, "the second trace");
  if (found_.first) {
    const bool parted_before = found_.parting == Parting::kContributions;
    found_.verdict = std::max(found_.verdict,
                              parted_before ? RoundingVerdict::kNotJudged : found_.first->verdict);
  }
  return std::move(found_);
}

}  // namespace

TracesExplanation explain_traces(const MemoryTrace& left,
                                 const MemoryTrace& right,
                                 const std::optional<Combination>& combination) {
  TracesExplanation explanation = ExplainingTraces(left, right, combination).run();
  if (const auto difference = cli::first_difference(left, right, cli::Timing::kIgnored)) {
    explanation.first_difference = difference->text.substr(0, difference->text.find('\n'));
    // They differ, and no reduction does.
    if (!explanation.first) {
      explanation.verdict = std::max(explanation.verdict, RoundingVerdict::kNotJudged);
    }
  }
  std::vector<SeriesStep> steps = steps_of_traces(left, right);
  if (!steps.empty()) explanation.growth = growth_of(std::move(steps));
  return explanation;
}

}  // namespace lockstep
