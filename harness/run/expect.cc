// Compares what happened with what a scenario expects.
#include "lockstep/harness/run/expect.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/harness/run/fault_expectation.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {
namespace {

std::vector<std::int32_t> plain(const std::vector<Rank>& ranks) {
  std::vector<std::int32_t> result;
  result.reserve(ranks.size());
  for (const Rank rank : ranks) result.push_back(to_int(rank));
  return result;
}

bool text_fits(const std::string& wanted, const std::string& got) {
  return wanted.empty() || wanted == got;
}

/// Fields that the expectation leaves out fit anything.
bool fits(const ExpectedFinding& wanted, const Finding& got) {
  if (wanted.law != got.law) return false;
  if (wanted.step && wanted.step != got.step) return false;
  if (wanted.seq && wanted.seq != got.seq) return false;
  if (wanted.ranks && *wanted.ranks != plain(got.ranks)) return false;
  if (wanted.missing && *wanted.missing != plain(got.missing)) return false;
  if (!wanted.weights.empty() && wanted.weights != got.weights) return false;
  if (!wanted.declared.empty() && wanted.declared != got.declared) return false;
  return text_fits(wanted.tensor, got.tensor) && text_fits(wanted.field, got.field) &&
         text_fits(wanted.site, got.site) &&
         (wanted.cause == Cause::kNone || wanted.cause == got.cause);
}

std::string list(const std::vector<double>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) texts.push_back(exact(value));
  return "[" + join(texts) + "]";
}

std::string words(const ExpectedFinding& wanted) {
  std::string text = "law " + wanted.law;
  if (wanted.step) text += ", step " + std::to_string(*wanted.step);
  if (wanted.seq) text += ", seq " + std::to_string(*wanted.seq);
  if (!wanted.tensor.empty()) text += ", tensor '" + wanted.tensor + "'";
  if (wanted.ranks) text += ", ranks [" + join(*wanted.ranks) + "]";
  if (wanted.missing) text += ", missing [" + join(*wanted.missing) + "]";
  if (!wanted.field.empty()) text += ", field '" + wanted.field + "'";
  if (!wanted.site.empty()) text += ", site " + wanted.site;
  if (wanted.cause != Cause::kNone) text += ", cause " + std::string(id_of(wanted.cause));
  if (!wanted.weights.empty()) text += ", weights " + list(wanted.weights);
  if (!wanted.declared.empty()) text += ", declared " + list(wanted.declared);
  return text;
}

/// The fields of a finding that an expectation can name, for a reader who wants to correct one of
/// them.
std::string fields(const Finding& got) {
  std::string text = "found";
  if (got.step) text += " step " + std::to_string(*got.step);
  if (got.seq) text += " seq " + std::to_string(*got.seq);
  if (!got.tensor.empty()) text += " tensor '" + got.tensor + "'";
  text += " ranks [" + join(plain(got.ranks)) + "]";
  if (!got.missing.empty()) text += " missing [" + join(plain(got.missing)) + "]";
  if (!got.field.empty()) text += " field '" + got.field + "'";
  if (!got.site.empty()) text += " site " + got.site;
  if (got.cause != Cause::kNone) text += " cause " + std::string(id_of(got.cause));
  if (!got.weights.empty()) text += " weights " + list(got.weights);
  if (!got.declared.empty()) text += " declared " + list(got.declared);
  return text;
}

/// Empty when `wanted` was found; otherwise the complaint, with the nearest finding of the same
/// law.
std::string missing_finding(const ExpectedFinding& wanted, const Report& report) {
  const auto law =
      std::find_if(report.laws.begin(), report.laws.end(), [&](const LawResult& result) {
        return result.law == wanted.law && !result.findings.empty();
      });
  std::string complaint = wanted.where + ": expected but not found: " + words(wanted);
  if (law == report.laws.end()) return complaint;
  const bool found = std::any_of(law->findings.begin(),
                                 law->findings.end(),
                                 [&](const Finding& finding) { return fits(wanted, finding); });
  return found ? "" : complaint + "; " + fields(law->findings.front());
}

void check_findings(const Expectation& expect,
                    const Report& report,
                    std::vector<UnmetExpectation>& unmet) {
  for (const ExpectedFinding& wanted : expect.fires) {
    std::string complaint = missing_finding(wanted, report);
    if (!complaint.empty()) unmet.push_back({std::move(complaint), UnmetKind::kMissed});
  }
}

bool is_named(const Expectation& expect, const std::string& law) {
  return std::any_of(expect.fires.begin(), expect.fires.end(), [&](const ExpectedFinding& wanted) {
    return wanted.law == law;
  });
}

void check_quiet(const Expectation& expect,
                 const Report& report,
                 std::vector<UnmetExpectation>& unmet) {
  for (const LawResult& law : report.laws) {
    const bool must_look =
        std::find(expect.quiet.begin(), expect.quiet.end(), law.law) != expect.quiet.end();
    if (law.verdict == Verdict::kNotCheckable && must_look) {
      unmet.push_back({"law " + law.law + " saw nothing to check: it needs " + law.missing});
    }
    if (law.findings.empty() || is_named(expect, law.law)) continue;
    unmet.push_back({"not expected: " + sentence(law.findings.front()), UnmetKind::kUnexpected});
  }
}

void check_advice(const Expectation& expect,
                  const Report& report,
                  std::vector<UnmetExpectation>& unmet) {
  if (!expect.advice) return;
  std::vector<std::string> missing = *expect.advice;
  for (const LawResult& law : report.laws) {
    for (const Advice& advice : law.advice) {
      const bool wanted = std::find(expect.advice->begin(), expect.advice->end(), advice.id) !=
                          expect.advice->end();
      std::erase(missing, advice.id);
      if (wanted || advice.about == AdviceSubject::kChecks) continue;
      unmet.push_back(
          {"not expected: advice " + advice.id + ", " + advice.message, UnmetKind::kUnexpected});
    }
  }
  for (const std::string& id : missing) {
    unmet.push_back({"advice " + id + " was expected", UnmetKind::kMissed});
  }
}

std::string step_words(const ExpectedValue& wanted) {
  return (wanted.step ? "step " + std::to_string(*wanted.step) + ", " : std::string()) +
         std::string(name_of(wanted.event)) + ", `" + wanted.tensor + "`";
}

void check_value(const ExpectedValue& wanted,
                 const ScenarioResult& result,
                 std::vector<UnmetExpectation>& unmet) {
  for (std::int32_t r = 0; r < result.session.trace->n_ranks(); ++r) {
    const std::vector<double>& values =
        wanted.by_rank.empty() ? wanted.equals : wanted.by_rank[static_cast<std::size_t>(r)];
    const ValueEvent* got = recorded_value(result, wanted, static_cast<Rank>(r));
    if (got != nullptr &&
        std::equal(got->values.begin(), got->values.end(), values.begin(), values.end())) {
      continue;
    }
    const std::string found =
        got == nullptr ? "nothing" : list({got->values.begin(), got->values.end()});
    unmet.push_back({wanted.where + ": " + step_words(wanted) + ": expected " + list(values) +
                     ", found " + found + " on rank " + std::to_string(r)});
  }
}

std::vector<std::int64_t> consumed(const MemoryTrace& trace, const ExpectedSamples& wanted) {
  std::vector<std::int64_t> ids;
  for (const Event& event : trace.events(static_cast<Rank>(wanted.rank))) {
    const auto* sample = std::get_if<SampleEvent>(&event.body);
    if (sample == nullptr || !is_train_split(trace.names().text(sample->split))) continue;
    if (event.at.opt == wanted.step) ids.insert(ids.end(), sample->ids.begin(), sample->ids.end());
  }
  return ids;
}

void check_samples(const ExpectedSamples& wanted,
                   const MemoryTrace& trace,
                   std::vector<UnmetExpectation>& unmet) {
  const std::vector<std::int64_t> got = consumed(trace, wanted);
  if (got == wanted.ids) return;
  const auto text = [](const std::vector<std::int64_t>& ids) {
    std::vector<std::string> words;
    words.reserve(ids.size());
    for (const std::int64_t id : ids) words.push_back(std::to_string(id));
    return "[" + join(words) + "]";
  };
  unmet.push_back({wanted.where + ": rank " + std::to_string(wanted.rank) + " consumed " +
                   text(got) + " in step " + std::to_string(wanted.step) + ", expected " +
                   text(wanted.ids)});
}

void check_metric(const Expectation& expect,
                  const ScenarioResult& result,
                  std::vector<UnmetExpectation>& unmet) {
  if (!expect.metric) return;
  const Expectation::Metric& metric = *expect.metric;
  if (result.ranks.empty() || result.ranks.front().evals.empty()) {
    unmet.push_back({"metric " + metric.name + " was expected, but nothing was evaluated"});
    return;
  }
  const double value = result.ranks.front().evals.back().value;
  const auto complain = [&](std::string_view relation, double limit) {
    unmet.push_back({"metric " + metric.name + " is " + exact(value) + ", expected " +
                     std::string(relation) + " " + exact(limit)});
  };
  if (metric.min && !(value >= *metric.min)) complain("at least", *metric.min);
  if (metric.max && !(value <= *metric.max)) complain("at most", *metric.max);
  if (metric.equals && value != *metric.equals) complain("exactly", *metric.equals);
  const double denominator = result.ranks.front().evals.back().denominator;
  if (metric.denominator && denominator != *metric.denominator) {
    unmet.push_back({"metric " + metric.name + " was taken over " + exact(denominator) +
                     ", expected " + exact(*metric.denominator)});
  }
}

}  // namespace

const ValueEvent* recorded_value(const ScenarioResult& result,
                                 const ExpectedValue& asked,
                                 Rank rank) {
  if (result.session.trace == nullptr) return nullptr;
  const NameTable& names = result.session.trace->names();
  for (const Event& event : result.session.trace->events(rank)) {
    const auto* value = std::get_if<ValueEvent>(&event.body);
    if (value == nullptr || value->point != asked.event) continue;
    if (names.text(value->tensor) != asked.tensor) continue;
    if (!asked.step || event.at.opt == *asked.step) return value;
  }
  return nullptr;
}

std::vector<UnmetExpectation> unmet(const Scenario& scenario, const ScenarioResult& result) {
  const Expectation& expect = scenario.expect;
  const Report& report = result.report;
  std::vector<UnmetExpectation> unmet;
  if (report.outcome != expect.outcome) {
    unmet.push_back(
        {"outcome is \"" + std::string(name_of(report.outcome)) + "\", expected \"" +
             std::string(name_of(expect.outcome)) + "\"" +
             (report.error.empty() ? "" : ": " + report.error),
         expect.outcome == RunOutcome::kOk ? UnmetKind::kUnexpected : UnmetKind::kMissed});
  }
  if (!expect.error.empty() && report.error.find(expect.error) == std::string::npos) {
    unmet.push_back(
        {"the error should contain '" + expect.error + "', it is '" + report.error + "'",
         UnmetKind::kMissed});
  }
  check_findings(expect, report, unmet);
  check_quiet(expect, report, unmet);
  check_advice(expect, report, unmet);
  if (result.session.trace != nullptr) {
    for (const ExpectedValue& value : expect.values) check_value(value, result, unmet);
    for (const ExpectedSamples& samples : expect.samples) {
      check_samples(samples, *result.session.trace, unmet);
    }
  }
  check_metric(expect, result, unmet);
  check_restarts(expect, result, unmet);
  check_final_state(scenario, result, unmet);
  return unmet;
}

}  // namespace lockstep
