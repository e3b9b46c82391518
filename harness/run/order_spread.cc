#include "lockstep/harness/run/order_spread.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "lockstep/formats/float_format.h"
#include "lockstep/harness/companion/step_values.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/laws/rules/detail/precision.h"

namespace lockstep {

namespace {

/// Rank 0's values of one run are kept up to this size.
constexpr std::int64_t kMostSpreadBytes = std::int64_t{256} << 20U;
constexpr std::size_t kMostWorlds = 4;

/// What is kept of a run: samples by step, gradients of the first one, parameters after each.
struct RunValues {
  std::shared_ptr<MemoryTrace> trace;  // The spans below point into it.
  std::vector<RankStep> steps;         // Rank 0's.
  std::vector<std::multiset<std::int64_t>> samples;
};

struct Change {
  SpreadRun run;
  std::vector<Setting> settings;
};

Result<RunValues> run_values(const Scenario& scenario) {
  sim::SessionOptions options = scenario.session;
  options.step_value_bytes = kMostSpreadBytes;
  options.keep_trace = true;
  options.laws = {"progress"};
  options.policy.declared_mean.clear();
  sim::Session session;
  const auto ran = session.run(options, [&](RankContext& context) { run_rank(scenario, context); });
  if (!ran.ok()) return ran.error();
  const RunOutcome outcome = ran.value().report.outcome;
  if (!is_complete(outcome)) {
    return Error{"it ends with: " + std::string(name_of(outcome)) + " " + ran.value().report.error,
                 ""};
  }
  RunValues values;
  values.trace = ran.value().trace;
  for (std::int32_t r = 0; r < scenario.n_ranks; ++r) {
    std::vector<RankStep> steps = steps_of(*values.trace, Rank{r});
    values.samples.resize(std::max(values.samples.size(), steps.size()));
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (const MicroData& micro : steps[s].micros) {
        values.samples[s].insert(micro.ids.begin(), micro.ids.end());
      }
    }
    if (r == 0) values.steps = std::move(steps);
  }
  return values;
}

std::vector<Change> order_changes(std::int32_t n_ranks, std::string_view base) {
  std::vector<std::string> names = {"rank", "gloo-ring", "pairwise", "nccl-ring", "nccl-tree"};
  if (n_ranks > 2) {
    // Backwards, and the odd ranks after the even ones: as with different wirings.
    std::string backwards = "nccl-ring:0";
    std::string evens = "nccl-ring:0";
    std::string odds;
    for (std::int32_t r = n_ranks - 1; r > 0; --r) backwards += "," + std::to_string(r);
    for (std::int32_t r = 1; r < n_ranks; ++r) {
      (r % 2 == 0 ? evens : odds) += "," + std::to_string(r);
    }
    names.push_back(backwards);
    if (n_ranks > 3) names.push_back(evens + odds);
  }
  std::vector<Change> changes;
  for (const std::string& name : names) {
    if (name == base) continue;
    changes.push_back({{SpreadAxis::kOrders, name, ""}, {{"sim.order", name}}});
  }
  return changes;
}

std::vector<Change> bucket_changes() {
  return {{{SpreadAxis::kBuckets, "one bucket per parameter", ""},
           {{"ddp.bucket_cap_mb", "0.000001"}, {"ddp.first_bucket_bytes", "1"}}},
          {{SpreadAxis::kBuckets, "one bucket", ""},
           {{"ddp.bucket_cap_mb", "100000"}, {"ddp.first_bucket_bytes", "100000000000"}}}};
}

/// Worlds that divide the global batch evenly; the samples of each step tell whether they did.
std::vector<Change> world_changes(const Scenario& scenario) {
  std::vector<Change> changes;
  const std::int64_t global = scenario.jobs.front()->loader.batch * scenario.n_ranks;
  for (std::int64_t n = 1; n / 2 <= scenario.n_ranks && changes.size() < kMostWorlds; n *= 2) {
    if (n == scenario.n_ranks || global % n != 0) continue;
    changes.push_back(
        {{SpreadAxis::kWorlds, std::to_string(n) + (n == 1 ? " rank" : " ranks"), ""},
         {{"world.ranks", std::to_string(n)}, {"loader.batch", std::to_string(global / n)}}});
  }
  return changes;
}

/// Lowest and highest value of each element of one tensor.
class Range {
 public:
  explicit Range(DType dtype) : dtype_(dtype) {}

  void add(std::span<const double> values) {
    if (low_.empty()) {
      low_.assign(values.begin(), values.end());
      high_ = low_;
      return;
    }
    for (std::size_t i = 0; i < std::min(values.size(), low_.size()); ++i) {
      if (std::isnan(values[i]) != std::isnan(low_[i])) odd_ = true;
      low_[i] = std::min(low_[i], values[i]);
      high_[i] = std::max(high_[i], values[i]);
    }
  }

  Spread spread() const {
    Spread widest;
    for (std::size_t i = 0; i < low_.size(); ++i) {
      const std::uint64_t ulps = ulps_between(low_[i], high_[i], dtype_);
      if (i > 0 && ulps <= widest.ulps) continue;
      widest = {ulps, static_cast<std::int64_t>(i), low_[i], high_[i], 0.0};
    }
    widest.scaled = scaled();
    if (!odd_) return widest;
    widest.ulps = Spread::kNotANumber;
    widest.scaled = std::numeric_limits<double>::quiet_NaN();
    return widest;
  }

 private:
  double scaled() const {
    double largest = 0.0;
    double distance = 0.0;
    for (std::size_t i = 0; i < low_.size(); ++i) {
      largest = std::max({largest, std::abs(low_[i]), std::abs(high_[i])});
      distance = std::max(distance, high_[i] - low_[i]);
    }
    if (distance == 0.0) return 0.0;
    const int digits = -std::ilogb(laws::precision_of(dtype_).unit);
    return distance / std::ldexp(1.0, std::ilogb(largest) + 1 - digits);
  }

  DType dtype_;
  bool odd_ = false;
  std::vector<double> low_;
  std::vector<double> high_;
};

/// The runs that count, and where they are compared.
class Comparison {
 public:
  Comparison(DType dtype, const RunValues& base)
      : dtype_(dtype), base_(base), last_(n_recorded(base)) {}

  /// Why a run cannot be compared, or empty.
  std::string add(SpreadAxis axis, RunValues values) {
    if (values.steps.size() != base_.steps.size()) return "it takes a different number of steps";
    if (values.samples != base_.samples) return "its steps consume different samples";
    last_ = std::min(last_, n_recorded(values));
    runs_.emplace_back(axis, std::move(values));
    return "";
  }

  std::vector<TensorSpread> tensors() const {
    std::vector<TensorSpread> tensors;
    if (last_ == 0) return tensors;
    const auto measure = [&](bool is_gradient, std::size_t step) {
      const RankStep& at = base_.steps[step];
      for (const auto& [name, values] : is_gradient ? at.used : at.after) {
        tensors.push_back(spread_of(name, is_gradient, step));
      }
    };
    measure(true, 0);
    measure(false, last_ - 1);
    return tensors;
  }

 private:
  static std::size_t n_recorded(const RunValues& run) {
    std::size_t n = run.steps.size();
    while (n > 0 && run.steps[n - 1].after.empty()) --n;
    return n;
  }

  TensorSpread spread_of(const std::string& name, bool is_gradient, std::size_t step) const {
    const auto values_in = [&](const RunValues& run) {
      const TensorValues& of = is_gradient ? run.steps[step].used : run.steps[step].after;
      const auto found = of.find(name);
      return found == of.end() ? std::span<const double>() : found->second;
    };
    std::vector<Range> ranges(kSpreadAxes + 1, Range(dtype_));
    for (Range& range : ranges) range.add(values_in(base_));
    for (const auto& [axis, run] : runs_) {
      ranges[static_cast<std::size_t>(axis)].add(values_in(run));
      ranges.back().add(values_in(run));
    }
    TensorSpread spread;
    spread.name = name;
    spread.is_gradient = is_gradient;
    spread.step = static_cast<std::int64_t>(step);
    for (std::size_t axis = 0; axis < kSpreadAxes; ++axis) {
      spread.by_axis[axis] = ranges[axis].spread();
    }
    spread.all = ranges.back().spread();
    return spread;
  }

  DType dtype_;
  const RunValues& base_;
  std::size_t last_;  // Steps whose parameters all runs recorded.
  std::vector<std::pair<SpreadAxis, RunValues>> runs_;
};

std::vector<Change> changes_of(const Scenario& scenario) {
  std::vector<Change> changes =
      order_changes(scenario.n_ranks, name_of(scenario.session.group.order));
  for (Change& change : bucket_changes()) changes.push_back(std::move(change));
  for (Change& change : world_changes(scenario)) changes.push_back(std::move(change));
  return changes;
}

/// Why this change says nothing, or empty: it was added to the comparison.
std::string try_change(const std::string& path,
                       const std::string& variant,
                       std::vector<Setting> settings,
                       const Change& change,
                       Comparison& comparison) {
  settings.insert(settings.end(), change.settings.begin(), change.settings.end());
  const Result<Scenario> scenario = load_scenario(path, variant, settings);
  if (!scenario.ok()) return scenario.error().message;
  Result<RunValues> values = run_values(scenario.value());
  if (!values.ok()) return values.error().message;
  return comparison.add(change.run.axis, std::move(values).value());
}

}  // namespace

std::string_view name_of(SpreadAxis axis) {
  switch (axis) {
    case SpreadAxis::kOrders:
      return "orders";
    case SpreadAxis::kBuckets:
      return "buckets";
    case SpreadAxis::kWorlds:
      return "worlds";
  }
  return "";
}

std::uint64_t ulps_between(double a, double b, DType dtype) {
  const bool strange = std::isnan(a) || std::isnan(b);
  if (strange) return std::isnan(a) && std::isnan(b) ? 0 : Spread::kNotANumber;
  return FloatFormat::of(dtype).value().ulps_between(a, b);
}

Result<OrderSpread> order_spread(const std::string& path,
                                 const std::string& variant,
                                 const std::vector<Setting>& settings) {
  const Result<Scenario> scenario = load_scenario(path, variant, settings);
  if (!scenario.ok()) return scenario.error();
  if (scenario.value().jobs.empty()) {
    return Error{"a raw program has no gradients; the spread is that of a job", path};
  }
  const Result<RunValues> base = run_values(scenario.value());
  if (!base.ok()) return Error{base.error().message, path};

  OrderSpread spread;
  spread.title = scenario.value().title;
  spread.base = "order " + std::string(name_of(scenario.value().session.group.order)) + ", " +
                std::to_string(scenario.value().n_ranks) + " ranks";
  Comparison comparison(scenario.value().jobs.front()->model.dtype, base.value());
  for (Change& change : changes_of(scenario.value())) {
    change.run.left_out = try_change(path, variant, settings, change, comparison);
    spread.runs.push_back(std::move(change.run));
  }
  spread.tensors = comparison.tensors();
  if (spread.tensors.empty()) return Error{"no step recorded its values", path};
  return spread;
}

}  // namespace lockstep
