#include "lockstep/laws/report.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/laws/law.h"
#include "lockstep/trace/json_text.h"

namespace lockstep {

namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return result;
}

/// Where in a step an event lies, for people.
std::string place_of(const std::string& event) {
  if (event == "step") return "after optimizer.step";
  if (event == "grad.post") return "after the reduction";
  if (event == "grad.redo") return "when the micro-step was computed again";
  if (event == "wrap") return "after wrapping";
  if (event == "forward") return "as the first synchronising forward begins";
  if (event == "eval") return "entering evaluation";
  if (event == "save") return "before a snapshot";
  if (event == "end") return "at the end";
  if (event == "epoch") return "in the epoch";
  if (event == "touch") return "with a transfer in flight";
  return event;
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + exact(value);
  return text;
}

std::string_view text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kBroken:
      return "broken";
    case Verdict::kNotCheckable:
      return "not checkable";
  }
  return "";
}

/// "parameter `fc2.weight`[5] differs ..." : what, with its tensor in front when there is one.
// "`fc.weight`[7] on rank 3: ", or what there is of it.
std::string subject(const Finding& finding) {
  if (finding.tensor.empty()) return finding.ranks.empty() ? "" : ranks_text(finding.ranks) + ": ";
  std::string text = "`" + finding.tensor + "`";
  if (finding.element) text += "[" + std::to_string(*finding.element) + "]";
  if (!finding.ranks.empty()) text += " on " + ranks_text(finding.ranks);
  return text + ": ";
}

}  // namespace

std::string ranks_text(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && to_int(ranks[last + 1]) == to_int(ranks[last]) + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(to_int(ranks[i]));
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(to_int(ranks[last]));
    i = last + 1;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

std::size_t Report::n_findings() const {
  std::size_t n = 0;
  for (const LawResult& law : laws) n += law.findings.size();
  return n;
}

std::string sentence(const Finding& finding) {
  std::string text;
  if (finding.attempt > 0) text += "attempt " + std::to_string(finding.attempt) + ", ";
  if (finding.step) text += "step " + std::to_string(*finding.step) + ", ";
  if (finding.epoch >= 0) text += "epoch " + std::to_string(finding.epoch) + ", ";
  if (finding.event == "collective") {
    text += "group " + std::to_string(finding.group);
    if (finding.seq) text += " call " + std::to_string(*finding.seq);
  } else {
    text += place_of(finding.event);
  }
  text += ": " + subject(finding);
  text += finding.message + " (law " + upper(finding.law) + ").";
  if (!finding.weights.empty()) {
    text += " Weights " + list(finding.weights) + ", declared " + list(finding.declared) + ".";
  }
  if (!finding.missing.empty()) text += " Missing: " + ranks_text(finding.missing) + ".";
  if (!finding.site.empty()) text += " At " + finding.site;
  if (!finding.site.empty() && !finding.other_site.empty())
    text += ", against " + finding.other_site;
  if (!finding.site.empty()) text += ".";
  if (!finding.cause.empty()) text += " Likely: " + finding.cause + ".";
  return text;
}

namespace {

std::string paint(bool color, std::string_view code, const std::string& text) {
  return color ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

/// "  replicas-equal  holds (12 checks)", names padded to `width`.
std::string verdict_line(const LawResult& law, std::size_t width, bool color) {
  std::string_view code = "32";
  if (law.verdict == Verdict::kBroken) code = "31";
  if (law.verdict == Verdict::kNotCheckable) code = "33";
  std::string line = "  " + law.law + std::string(width - law.law.size() + 2, ' ');
  line += paint(color, code, std::string(text_of(law.verdict)));
  if (law.verdict == Verdict::kNotCheckable) line += ": add " + law.missing;
  if (law.verdict == Verdict::kHolds) line += " (" + std::to_string(law.n_checked) + " checks)";
  return line + "\n";
}

}  // namespace

namespace {

// Laws with their verdicts, then findings, then advice.
std::string laws_text(const std::vector<LawResult>& laws, bool color) {
  std::string out;
  std::size_t width = 0;
  for (const LawResult& law : laws) width = std::max(width, law.law.size());
  for (const LawResult& law : laws) out += verdict_line(law, width, color);
  for (const LawResult& law : laws) {
    for (const Finding& finding : law.findings) out += sentence(finding) + "\n";
  }
  for (const LawResult& law : laws) {
    for (const Advice& advice : law.advice)
      out += "advice " + advice.id + ": " + advice.message + "\n";
  }
  return out;
}

}  // namespace

std::string render_text(const Report& report, bool color) {
  std::string out = report.title + " (" + std::to_string(report.n_ranks) + " ranks): ";
  out += paint(color, report.ok() ? "32" : "31", report.outcome) + "\n";
  if (!report.error.empty()) out += "  " + report.error + "\n";
  for (const std::string& note : report.notes) out += "  " + note + "\n";
  for (std::size_t i = 0; i < report.attempts.size(); ++i) {
    out += "  attempt " + std::to_string(i) + " ended: " + report.attempts[i] + "\n";
  }
  out += laws_text(report.laws, color);
  if (!report.first_divergence.empty()) {
    out += "ranks differ since: " + report.first_divergence + "\n";
  }
  if (!report.wait_for_graph.empty()) out += "who waits for whom:\n" + report.wait_for_graph + "\n";
  if (!report.timeouts.empty()) out += "what the watchdog says:\n" + report.timeouts + "\n";
  out += std::to_string(report.n_events) + " events, ";
  // Real ranks have no one order of their events.
  if (report.trace_digest != 0) out += "trace digest " + hex64(report.trace_digest) + ", ";
  out += "result digest " + hex64(report.result_digest) + "\n";
  if (!report.replay.empty() && !report.ok()) out += "Replay: " + report.replay + "\n";
  return out;
}

}  // namespace lockstep
