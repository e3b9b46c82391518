// metric-true: a reported metric is what one process would report over the different samples.
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/samples/evaluations.h"
#include "lockstep/laws/rules/metric_formula.h"

namespace lockstep::laws {

namespace {

/// One rank's report of a metric and what it looked at for it.
struct MetricReport {
  std::int32_t rank = 0;
  std::optional<std::int64_t> step;  ///< Unknown outside any wrapper.
  std::int32_t epoch = 0;
  double value = 0.0;
  double denominator = 0.0;
  bool is_mean = false;  ///< value = numerator / denominator.
  MetricFormula formula = MetricFormula::kNone;
  bool looks_back = false;  ///< What it looked at is what the rank trained on last.
  std::vector<std::int64_t> ids;
  std::vector<double> parts;
};

struct Mean {
  double sum = 0.0;
  double total = 0.0;  ///< Of absolute values.
  std::int64_t n = 0;
  bool whole = true;  ///< All parts are whole numbers.

  void add(double part) {
    whole = whole && part == std::trunc(part);
    sum += part;
    total += std::abs(part);
    ++n;
  }

  double value() const { return n == 0 ? 0.0 : sum / static_cast<double>(n); }

  /// Whether `other` is this mean but for the rounding of its additions and one division. Parts may
  /// have been added up in single precision, which adds whole numbers below 2^24 exactly.
  bool is(double other) const {
    const double count = static_cast<double>(n);
    const double n_additions = whole && total <= 0x1p24 ? 0.0 : count;
    return n > 0 && std::abs(other - value()) <= (n_additions + 2) * 0x1p-24 * total / count;
  }
};

/// A loss that a backward may follow.
bool is_of_training(const EventBody& body) {
  const auto* loss = std::get_if<LossEvent>(&body);
  return loss != nullptr && loss->grad;
}

class MetricTrue final : public Law {
 public:
  static constexpr std::string_view kId = "metric-true";

  explicit MetricTrue(const LawPolicy& policy)
      : worlds_(policy.n_ranks), evaluations_(policy.more_follows) {}

  const LawInfo& info() const override { return *find_law(kId); }

  EventKinds reads() const override {
    return kinds_of<MetricEvent,
                    SampleEvent,
                    EpochEvent,
                    PhaseEvent,
                    EnvironmentEvent,
                    SnapshotEvent,
                    EndEvent,
                    LossEvent,
                    CollectiveEvent>();
  }

  void require(RecordOptions& options) const override { options.samples = options.losses = true; }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    // Of calls the first rank's is enough, as all ranks of a cohort make the same.
    if (const auto* call = std::get_if<CollectiveEvent>(&event.first->body)) {
      evaluations_.on_call(*call, all_ranks(event));
    } else if (!is_of_training(event.first->body)) {
      Law::on_cohort(event, names);
    }
  }

  void on_event(const Event& event, const NameTable& names) override {
    if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
      evaluations_.on_call(*call, one_rank(event));
      return;
    }
    worlds_.on_event(event);
    evaluations_.on_event(event, names);
    if (const auto* metric = std::get_if<MetricEvent>(&event.body)) {
      on_metric(event, *metric, names);
    } else if (const auto* sample = std::get_if<SampleEvent>(&event.body)) {
      on_samples(to_int(event.rank), *sample, names);
    } else if (const auto* epoch = std::get_if<EpochEvent>(&event.body)) {
      if (!is_train_split(names.text(epoch->split))) n_to_evaluate_ = epoch->dataset_size;
    } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
      if (phase->kind == PhaseKind::kEval) evaluated_.erase(to_int(event.rank));
    }
  }

  LawResult finish(const NameTable& names) override {
    for (auto& [alignment, reports] : open_) judge(alignment, reports, names);
    open_.clear();
    std::vector<Finding> findings;
    findings.reserve(first_.size());
    for (auto& [key, earliest] : first_) findings.push_back(std::move(earliest.finding));
    LawResult result =
        conclude(kId,
                 std::move(findings),
                 n_checked_,
                 "metric events of every rank, and sample events of what they were taken over");
    result.advice = evaluations_.advice(names);
    return result;
  }

 private:
  using Reports = std::vector<MetricReport>;
  using Key = std::tuple<std::int32_t, std::int32_t>;  // Attempt, metric.

  /// Ranks that do not report a metric leave its places open; no more than these are kept.
  static constexpr std::size_t kMaxOpen = 64;

  struct Earliest {
    std::int32_t nth = std::numeric_limits<std::int32_t>::max();
    Finding finding;
  };

  void on_samples(std::int32_t rank, const SampleEvent& sample, const NameTable& names) {
    if (is_train_split(names.text(sample.split))) {
      trained_[rank].assign(sample.ids.begin(), sample.ids.end());
      return;
    }
    std::vector<std::int64_t>& ids = evaluated_[rank];
    ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
  }

  void on_metric(const Event& event, const MetricEvent& metric, const NameTable& names) {
    Event placeless = event;
    placeless.at = {.attempt = event.at.attempt};
    const AlignmentKey alignment =
        counter_.next(placeless, static_cast<std::int32_t>(metric.name), kNoLayout);
    MetricReport report;
    report.rank = to_int(event.rank);
    if (event.at.wrapper >= 0) report.step = event.at.opt;
    report.epoch = event.at.epoch;
    report.value = metric.value;
    report.denominator = metric.denominator;
    report.is_mean = metric.denominator > 0.0 &&
                     std::abs(metric.value - metric.numerator / metric.denominator) <=
                         0x1p-20 * std::abs(metric.value);
    report.formula = metric.formula;
    // Several metrics may be taken over the same samples.
    report.ids = evaluated_[report.rank];
    report.looks_back = !report.ids.empty() && report.ids == trained_[report.rank];
    report.parts.assign(metric.parts.begin(), metric.parts.end());
    Reports& reports = open_[alignment];
    reports.push_back(std::move(report));
    if (static_cast<std::int64_t>(reports.size()) >= worlds_.full(event.at.attempt)) {
      judge(alignment, reports, names);
      open_.erase(alignment);
    } else if (open_.size() > kMaxOpen) {
      judge(open_.begin()->first, open_.begin()->second, names);
      open_.erase(open_.begin());
    }
  }

  /// What all ranks together looked at.
  struct Whole {
    std::set<std::int64_t> ids;
    std::int64_t n_drawn = 0;
    Mean once;           ///< Each sample once.
    Mean repeated;       ///< As often as it was drawn.
    Mean of_means;       ///< Of the ranks' own means.
    Mean of_means_once;  ///< The same, each sample counted by the first rank that drew it.
    bool has_parts = true;
  };

  static Whole whole_of(const Reports& reports) {
    Whole whole;
    for (const MetricReport& report : reports) {
      whole.n_drawn += static_cast<std::int64_t>(report.ids.size());
      whole.has_parts = whole.has_parts && report.is_mean && !report.ids.empty() &&
                        report.parts.size() == report.ids.size();
    }
    for (const MetricReport& report : reports) add_report(report, whole);
    return whole;
  }

  static void add_report(const MetricReport& report, Whole& whole) {
    Mean own;
    Mean own_once;
    for (std::size_t i = 0; i < report.ids.size(); ++i) {
      const bool is_new = whole.ids.insert(report.ids[i]).second;
      if (!whole.has_parts) continue;
      if (is_new) whole.once.add(report.parts[i]);
      if (is_new) own_once.add(report.parts[i]);
      whole.repeated.add(report.parts[i]);
      own.add(report.parts[i]);
    }
    if (own.n > 0) whole.of_means.add(own.value());
    if (own_once.n > 0) whole.of_means_once.add(own_once.value());
  }

  struct Complaint {
    std::string message;
    Cause cause = Cause::kNone;
  };

  static bool has_rows(const Reports& reports) {
    const MetricFormula formula = reports.front().formula;
    return formula != MetricFormula::kNone &&
           std::all_of(reports.begin(), reports.end(), [&](const MetricReport& report) {
             return report.formula == formula && !report.ids.empty() &&
                    report.parts.size() == columns_of(formula) * report.ids.size();
           });
  }

  /// What one process, and several that go wrong, make of a formula over all samples.
  struct Formula {
    std::optional<MetricValue> once;
    std::optional<MetricValue> repeated;
    std::int64_t n = 0;
    Mean of_own;         ///< Mean of the ranks' own values.
    double bound = 0.0;  ///< Of that mean.
  };

  static Formula formula_of(const Reports& reports) {
    const MetricFormula formula = reports.front().formula;
    const std::size_t columns = columns_of(formula);
    Formula whole;
    std::set<std::int64_t> seen;
    std::vector<double> once;
    std::vector<double> repeated;
    for (const MetricReport& report : reports) {
      for (std::size_t i = 0; i < report.ids.size(); ++i) {
        const auto row = std::span(report.parts).subspan(i * columns, columns);
        repeated.insert(repeated.end(), row.begin(), row.end());
        if (seen.insert(report.ids[i]).second) once.insert(once.end(), row.begin(), row.end());
      }
      if (const auto own = value_of(formula, report.parts)) {
        whole.of_own.add(own->value);
        whole.bound = std::max(whole.bound, own->bound);
      }
    }
    whole.once = value_of(formula, once);
    whole.repeated = value_of(formula, repeated);
    whole.n = std::ssize(seen);
    return whole;
  }

  /// What is wrong with one rank's report of such a metric; nothing when it is true.
  static std::optional<Complaint> by_formula(const MetricReport& report, const Formula& whole) {
    if (!whole.once || whole.once->is(report.value)) return std::nullopt;
    std::string message = "is " + exact(report.value) + ", but one process gets " +
                          exact(whole.once->value) + " over " + std::to_string(whole.n) +
                          " samples";
    const auto own = value_of(report.formula, report.parts);
    if (own && own->is(report.value)) {
      return Complaint{message + ": it covers only the rank's own samples",
                       Cause::kLocalMetricLogged};
    }
    if (whole.repeated && whole.repeated->is(report.value)) {
      return Complaint{message + ": repeated samples were counted each time",
                       Cause::kPadDuplicatesEval};
    }
    const MetricValue mean{whole.of_own.value(), whole.bound};
    if (whole.of_own.n > 1 && mean.is(report.value)) {
      return Complaint{message + ": it is the mean of the ranks' own values",
                       Cause::kPrereducedMetric};
    }
    return Complaint{message, Cause::kNone};
  }

  static Mean own_mean(const MetricReport& report) {
    Mean mean;
    for (const double part : report.parts) mean.add(part);
    return mean;
  }

  /// What is wrong with one rank's report, by its parts; nothing when it is true.
  static std::optional<Complaint> by_parts(const MetricReport& report, const Whole& whole) {
    if (whole.once.is(report.value)) return std::nullopt;
    std::string message = "is " + exact(report.value) + ", but one process gets " +
                          exact(whole.once.value()) + " over " + std::to_string(whole.once.n) +
                          " samples";
    if (own_mean(report).is(report.value)) {
      return Complaint{message + ": it covers only the rank's own samples",
                       Cause::kLocalMetricLogged};
    }
    if (whole.repeated.is(report.value)) {
      return Complaint{message + ": repeated samples were counted each time",
                       Cause::kPadDuplicatesEval};
    }
    if (whole.of_means.is(report.value) || whole.of_means_once.is(report.value)) {
      return Complaint{message + ": it is the mean of the ranks' means", Cause::kPrereducedMetric};
    }
    return Complaint{message, Cause::kNone};
  }

  /// The same from counts alone. A count of something other than samples proves nothing.
  static std::optional<Complaint> by_counts(const MetricReport& report, const Whole& whole) {
    const auto n_different = static_cast<double>(whole.ids.size());
    if (report.denominator == n_different) return std::nullopt;
    const std::string taken = "was computed over " + exact(report.denominator) +
                              " samples, but the ranks evaluated " +
                              std::to_string(whole.ids.size()) + " different ones";
    if (report.denominator == static_cast<double>(report.ids.size())) {
      return Complaint{taken + ": it covers only the rank's own samples",
                       Cause::kLocalMetricLogged};
    }
    if (report.denominator == static_cast<double>(whole.n_drawn)) {
      return Complaint{taken + ": repeated samples were counted each time",
                       Cause::kPadDuplicatesEval};
    }
    return std::nullopt;
  }

  void judge(const AlignmentKey& alignment, Reports& reports, const NameTable& names) {
    // A sampler's repeats are on higher ranks than what they repeat.
    std::sort(reports.begin(), reports.end(), [](const MetricReport& a, const MetricReport& b) {
      return a.rank < b.rank;
    });
    const bool complete = std::ssize(reports) >= worlds_.of(alignment.wrapper.attempt);
    const Whole whole = whole_of(reports);
    std::optional<Complaint> complaint;
    std::vector<Rank> ranks;
    if (complete && !whole.ids.empty()) complaint = compare_with(whole, reports, ranks);
    if (!complaint && complete) complaint = dropped_tail(whole, reports, ranks);
    if (!complaint) complaint = compare_values(reports, ranks);
    if (!complaint) return;
    std::sort(ranks.begin(), ranks.end());
    report(alignment, reports, std::move(ranks), *complaint, names);
  }

  /// The ranks whose value is not that of all samples, and what is wrong with the first's.
  std::optional<Complaint> compare_with(const Whole& whole,
                                        const Reports& reports,
                                        std::vector<Rank>& ranks) {
    std::optional<Formula> formula;
    if (has_rows(reports)) formula = formula_of(reports);
    std::optional<Complaint> complaint;
    for (const MetricReport& report : reports) {
      ++n_checked_;
      const auto found = formula           ? by_formula(report, *formula)
                         : whole.has_parts ? by_parts(report, whole)
                                           : by_counts(report, whole);
      if (!found) continue;
      if (!complaint) complaint = found;
      ranks.push_back(Rank{report.rank});
    }
    return complaint;
  }

  /// Samples that no rank evaluated, if a sampler recorded how many there are. Ids of two data sets
  /// may be alike by chance: that alone proves nothing.
  std::optional<Complaint> dropped_tail(const Whole& whole,
                                        const Reports& reports,
                                        std::vector<Rank>& ranks) const {
    const std::int64_t n_seen = std::ssize(whole.ids);
    if (n_seen == 0 || n_to_evaluate_ == 0 || n_seen == n_to_evaluate_) return std::nullopt;
    const bool looks_back = std::ranges::all_of(reports, &MetricReport::looks_back);
    if (n_seen > n_to_evaluate_ && !looks_back) return std::nullopt;
    for (const MetricReport& report : reports) ranks.push_back(Rank{report.rank});
    if (looks_back) {
      return Complaint{"was computed over the " + std::to_string(n_seen) +
                           " samples that the ranks trained on last, but the split has " +
                           std::to_string(n_to_evaluate_),
                       Cause::kLastBatchEvaluated};
    }
    return Complaint{"was computed over " + std::to_string(n_seen) + " of " +
                         std::to_string(n_to_evaluate_) + " samples: the sampler drops the rest",
                     Cause::kTailDroppedEval};
  }

  /// All ranks report one number, or it is none of the whole.
  std::optional<Complaint> compare_values(const Reports& reports, std::vector<Rank>& ranks) {
    Ballot ballot;
    for (const MetricReport& report : reports) {
      const std::uint64_t words[] = {std::bit_cast<std::uint64_t>(report.value)};
      Event voice;
      voice.rank = Rank{report.rank};
      ballot.add(voice, words);
    }
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous()) return std::nullopt;
    ranks = ballot.minority(0);
    return Complaint{"differs between ranks", Cause::kLocalMetricLogged};
  }

  void report(const AlignmentKey& alignment,
              const Reports& reports,
              std::vector<Rank> ranks,
              const Complaint& complaint,
              const NameTable& names) {
    Finding finding;
    finding.attempt = alignment.wrapper.attempt;
    finding.event = "metric";
    finding.field = names.text(static_cast<NameId>(alignment.what));
    finding.ranks = std::move(ranks);
    finding.step = reports.front().step;
    finding.epoch = reports.front().epoch;
    finding.message = "the metric '" + finding.field + "' " + complaint.message;
    finding.cause = complaint.cause;
    Earliest& earliest = first_[{finding.attempt, alignment.what}];
    if (alignment.nth >= earliest.nth) return;
    earliest = {alignment.nth, std::move(finding)};
  }

  Worlds worlds_;
  Counter counter_;
  std::map<std::int32_t, std::vector<std::int64_t>> evaluated_;  // By rank, since its last phase.
  std::map<std::int32_t, std::vector<std::int64_t>> trained_;    // By rank, in its last forward.
  std::map<AlignmentKey, Reports> open_;
  std::map<Key, Earliest> first_;
  std::int64_t n_to_evaluate_ = 0;
  Evaluations evaluations_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_metric_true(const LawPolicy& policy) {
  return std::make_unique<MetricTrue>(policy);
}

}  // namespace lockstep::laws
