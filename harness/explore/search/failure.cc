#include "lockstep/harness/explore/search/failure.h"

#include <tuple>

namespace lockstep::explore {
namespace {

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// What may stand between two numbers of one list or one decimal.
bool separates(char letter) {
  return letter == '.' || letter == ',' || letter == ' ' || letter == '-' || letter == ':';
}

/// Where the numbers that start at `begin` end: "0, 1: 1.5 at" -> after the 5.
std::size_t end_of_numbers(const std::string& text, std::size_t begin) {
  std::size_t end = begin;
  std::size_t next = begin;
  while (next < text.size() && is_digit(text[next])) {
    end = next;
    while (end < text.size() && is_digit(text[end])) ++end;
    next = end;
    while (next < text.size() && separates(text[next])) ++next;
  }
  return end;
}

/// "ranks 0, 1: 1.5 at job.toml:3:7" -> "ranks #: # at job.toml:#": worlds of other sizes say the
/// same.
std::string without_numbers(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      result += text[i++];
      continue;
    }
    result += '#';
    i = end_of_numbers(text, i);
  }
  return result;
}

}  // namespace

const Finding* first_finding(const Report& report) {
  const Finding* first = nullptr;
  // Ranks that wait for one another may be in different steps, so a hang's do not show what was
  // first.
  const bool stuck = report.outcome == RunOutcome::kHang;
  const auto place = [stuck](const Finding& finding) {
    return std::tuple(finding.attempt, stuck ? 0 : finding.step.value_or(-1));
  };
  for (const LawResult& law : report.laws) {
    for (const Finding& finding : law.findings) {
      if (first == nullptr || place(finding) < place(*first)) first = &finding;
    }
  }
  return first;
}

std::optional<Failure> failure_of(const Report& report) {
  if (report.ok() && report.n_findings() == 0) return std::nullopt;
  Failure failure;
  failure.outcome = report.ok() ? RunOutcome::kFindings : report.outcome;
  if (failure.outcome == RunOutcome::kError) {
    failure.error = without_numbers(report.error);
    return failure;
  }
  if (const Finding* finding = first_finding(report)) {
    failure.law = finding->law;
    failure.cause = finding->cause;
    failure.field = finding->field;
    failure.event = finding->event;
    if (finding->site.find(".toml:") == std::string::npos) failure.site = finding->site;
  }
  return failure;
}

std::string describe(const Failure& failure) {
  if (failure.outcome == RunOutcome::kError) return "an error: " + failure.error;
  std::string text = failure.outcome == RunOutcome::kHang ? "a hang" : "";
  if (failure.law.empty()) return text;
  text += (text.empty() ? "law " : ": law ") + failure.law;
  if (!failure.field.empty()) text += ", field " + failure.field;
  if (failure.cause != Cause::kNone) text += ", cause " + std::string(id_of(failure.cause));
  return text;
}

std::string sentence_of(const Report& report) {
  if (report.outcome == RunOutcome::kError) return "error: " + report.error;
  const Finding* finding = first_finding(report);
  if (finding == nullptr) return std::string(name_of(report.outcome));
  return (report.outcome == RunOutcome::kHang ? "hang: " : "") + sentence(*finding);
}

}  // namespace lockstep::explore
