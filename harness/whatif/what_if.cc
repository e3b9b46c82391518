#include "lockstep/harness/whatif/what_if.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep {

namespace {

double ratio(const DurationSpread& over, const DurationSpread& under) {
  return static_cast<double>(over.median) / static_cast<double>(under.median);
}

std::string settings_text(const std::vector<Setting>& settings) {
  std::vector<std::string> texts;
  texts.reserve(settings.size());
  for (const Setting& setting : settings) texts.push_back(setting.key + "=" + setting.value);
  return join(texts, " ");
}

std::vector<Setting> both(std::vector<Setting> first, const std::vector<Setting>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Result<RunTimes> run_once(const Question& question, const std::vector<Setting>& settings) {
  const Result<Scenario> scenario = load_scenario(question.file, question.variant, settings);
  if (!scenario.ok()) return scenario.error();
  if (scenario.value().jobs.empty()) {
    return Error{"has no job with steps to measure", question.file};
  }
  if (!scenario.value().session.timed) {
    return Error{
        "nothing takes time in it: give sim.link and sim.compute, or --calibrate MEASUREMENTS",
        question.file};
  }
  const Result<ScenarioResult> result = run_scenario(scenario.value(), {});
  if (!result.ok()) return result.error();
  const Report& report = result.value().report;
  std::optional<RunTimes> times;
  if (result.value().session.trace) {
    times = run_times(*result.value().session.trace, RunClock::kVirtual);
  }
  const bool ended = report.outcome == RunOutcome::kOk || report.outcome == RunOutcome::kFindings;
  if (!ended || !times) {
    return Error{fmt::format("with {}: the run has no steps to measure ({})",
                             settings_text(settings),
                             name_of(report.outcome)),
                 question.file};
  }
  return std::move(*times);
}

/// How much more a step computed after its losses than its forwards foretell, as a share of the time in which
/// collectives were under way meanwhile:
///
///     forward     backward, slowed down by transfers         waiting   update
///     |-----------|------------------------------------------|=========|------|
///                       [------- hidden communication -------]
///
/// Nothing where that is not known.
double contention_of(const RunTimes& measured, const RunTimes& alone, double gflops) {
  const std::int64_t hidden = measured.communication.median - measured.exposed.median;
  if (hidden <= 0) return 0.0;
  const auto after = static_cast<double>(measured.compute.median - measured.forward.median);
  const auto foretold = static_cast<double>(alone.compute.median - alone.forward.median) / gflops;
  constexpr double kMost = 0.9;  // More than that is not the transfers' doing.
  return std::clamp((after - foretold) / static_cast<double>(hidden), 0.0, kMost);
}

/// How fast a rank would have to compute for its steps to take as long as measured.
///
/// Alone, computing takes operations / speed: one run at a known speed, with links that cost
/// nothing, gives the operations. The forwards give the speed, where losses show when they end, and what the rest of
/// the step took longer is what transfers cost it; else the whole step gives the speed.
Result<ComputeFit> fit_compute(const Question& question) {
  const std::vector<Setting> alone = {{"sim.link", "{}"},
                                      {"sim.compute.gflops", exact(1.0)},
                                      {"sim.compute.jitter", "0.0"},
                                      {"sim.compute.slow", "[]"}};
  const Result<RunTimes> times = run_once(question, both(question.settings, alone));
  if (!times.ok()) return times.error();
  const RunTimes& measured = *question.steps;
  if (measured.forward.median > 0 && times.value().forward.median > 0) {
    const double gflops = ratio(times.value().forward, measured.forward);
    const double contention = contention_of(measured, times.value(), gflops);
    if (contention > 0.0) return ComputeFit{gflops, contention};
  }
  return ComputeFit{ratio(times.value().compute, measured.compute)};
}

std::string link_text(std::string_view where, const sim::LinkSpec& link) {
  if (link.is_free()) return fmt::format("links {} cost nothing", where);
  return fmt::format("links {}: latency {}, {}",
                     where,
                     duration_text(link.latency_ns),
                     link.gb_per_s > 0.0 ? fmt::format("{:.4g} GB/s", link.gb_per_s)
                                         : std::string("no limit of bandwidth"));
}

std::string compute_text(const ComputeFit& fit) {
  std::string text = "computing was fitted to the measured steps";
  if (fit.contention > 0.0) {
    text += fmt::format("; it loses {:.0f} % of its speed while messages are under way",
                        100.0 * fit.contention);
  }
  return text;
}

std::vector<std::string> costs_of(const Scenario& scenario, const Answer& answer) {
  const sim::SessionOptions& session = scenario.session;
  std::vector<std::string> texts;
  texts.push_back(link_text("within a node", session.group.net.intra));
  if (session.group.net.ranks_per_node > 0) {
    texts.push_back(link_text("between nodes", session.group.net.inter));
  }
  texts.push_back(session.compute.is_free()
                      ? std::string("computing costs nothing")
                      : fmt::format("computing: {:.4g} GFLOP/s per rank",
                                    static_cast<double>(session.compute.mflops) / 1000.0));
  texts.push_back(fmt::format("sums in the order {}", session.group.order.name()));
  if (answer.link) {
    texts.push_back(
        fmt::format("the links were fitted to {} measurements of collectives, within {:.0f} %",
                    answer.link->n_measured,
                    100.0 * answer.link->worst));
  }
  if (answer.compute) texts.push_back(compute_text(*answer.compute));
  texts.emplace_back(
      "matrix products and collectives take time; loading data, element-wise work, the optimizer "
      "and the host's own overhead do not");
  return texts;
}

/// Settings that every run has: the file's, changed by what was asked and by what was fitted.
Result<std::vector<Setting>> fitted_settings(const Question& question, Answer& answer) {
  std::vector<Setting> settings = question.settings;
  if (question.measured.empty() && !question.steps) return settings;
  const Result<Scenario> scenario = load_scenario(question.file, question.variant, settings);
  if (!scenario.ok()) return scenario.error();
  if (!question.measured.empty()) {
    const Result<LinkFit> fit = fit_link(question.measured, scenario.value().session.group.order);
    if (!fit.ok()) return fit.error();
    answer.link = fit.value();
    settings.push_back({"sim.link.intra.latency_ns", std::to_string(fit.value().latency_ns)});
    settings.push_back({"sim.link.intra.gb_per_s", exact(fit.value().gb_per_s)});
  }
  if (question.steps && question.steps->compute.median > 0) {
    const Result<ComputeFit> fit = fit_compute(question);
    if (!fit.ok()) return fit.error();
    answer.compute = fit.value();
    settings.push_back({"sim.compute.gflops", exact(fit.value().gflops)});
    settings.push_back({"sim.compute.contention", exact(fit.value().contention)});
  }
  return settings;
}

}  // namespace

Result<Answer> what_if(const Question& question,
                       const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<SweptKey> sweep = question.sweep;
  if (sweep.empty()) sweep.push_back(parse_swept(kUsualBucketCaps).value());
  const Result<std::vector<std::vector<Setting>>> all = combinations(sweep);
  if (!all.ok()) return all.error();

  Answer answer;
  const Result<std::vector<Setting>> fixed = fitted_settings(question, answer);
  if (!fixed.ok()) return fixed.error();
  for (const std::vector<Setting>& combination : all.value()) {
    if (progress) progress(answer.setups.size(), all.value().size());
    Result<RunTimes> times = run_once(question, both(fixed.value(), combination));
    if (!times.ok()) return times.error();
    answer.setups.push_back({.settings = combination, .times = std::move(times).value()});
  }
  const auto best = std::ranges::min_element(
      answer.setups, {}, [](const Setup& setup) { return setup.times.step.median; });
  answer.best = static_cast<std::size_t>(best - answer.setups.begin());
  const Result<Scenario> scenario = load_scenario(
      question.file, question.variant, both(fixed.value(), answer.setups[answer.best].settings));
  if (!scenario.ok()) return scenario.error();
  answer.title = scenario.value().title;
  answer.rests_on = costs_of(scenario.value(), answer);
  return answer;
}

}  // namespace lockstep
