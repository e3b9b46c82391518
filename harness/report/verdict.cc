// What was found: the verdict, findings with their places, the laws.
#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/harness/report/detail/sections.h"
#include "lockstep/laws/law.h"

namespace lockstep::page {

namespace {

/// One fact of a finding, left out where it does not apply.
void write_fact(std::string_view name, const std::string& value, Html& out) {
  if (value.empty()) return;
  out.element("dt", name).element("dd", value);
}

std::string place_text(const Finding& finding) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (finding.attempt > 0) add("attempt " + std::to_string(finding.attempt));
  if (finding.step) add("step " + std::to_string(*finding.step));
  if (finding.epoch >= 0) add("epoch " + std::to_string(finding.epoch));
  if (!finding.event.empty()) add(finding.event);
  return text;
}

std::string call_text(const Finding& finding) {
  if (!finding.seq) return {};
  std::string text = "call " + std::to_string(*finding.seq) + " of group ";
  text += std::to_string(finding.group);
  return finding.field.empty() ? text : text + ", " + finding.field + " differs";
}

std::string tensor_text(const Finding& finding) {
  if (!finding.element) return finding.tensor;
  return finding.tensor + "[" + std::to_string(*finding.element) + "]";
}

std::string sites_text(const Finding& finding) {
  if (finding.other_site.empty()) return finding.site;
  return finding.site + ", against " + finding.other_site;
}

std::string numbers_text(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + exact(value);
  return text;
}

void write_finding(const Finding& finding, const std::string& replay, Html& out) {
  out.open("li", {{"class", "finding"}, {"data-law", finding.law}});
  out.element("p", sentence(finding), {{"class", "sentence"}});
  out.open("dl");
  write_fact("Law", finding.law, out);
  write_fact("Where", place_text(finding), out);
  write_fact("Call", call_text(finding), out);
  write_fact("Tensor", tensor_text(finding), out);
  if (!finding.ranks.empty()) write_fact("Ranks", ranks_text(finding.ranks), out);
  if (!finding.missing.empty()) write_fact("Missing", ranks_text(finding.missing), out);
  write_fact("Likely cause", std::string(id_of(finding.cause)), out);
  write_fact("Site", sites_text(finding), out);
  write_fact("Weights", numbers_text(finding.weights), out);
  write_fact("Declared", numbers_text(finding.declared), out);
  if (!replay.empty()) out.element("dt", "Replay").open("dd").element("code", replay).close("dd");
  out.close("dl").close("li");
}

std::string_view verdict_word(Verdict verdict) {
  if (verdict == Verdict::kHolds) return "holds";
  return verdict == Verdict::kBroken ? "broken" : "not checkable";
}

std::string_view verdict_mark(Verdict verdict) {
  if (verdict == Verdict::kHolds) return "\u2713";
  return verdict == Verdict::kBroken ? "\u2717" : "\u2013";
}

void write_law_row(const LawResult& law, Html& out) {
  const LawInfo* const info = find_law(law.law);
  out.open("tr", {{"data-law", law.law}});
  out.element("td", info == nullptr ? "" : std::to_string(info->number), {{"class", "number"}});
  out.element("th", law.law, {{"scope", "row"}});
  const char* const look = law.verdict == Verdict::kHolds ? "good" : "bad";
  out.open("td", {{"class", law.verdict == Verdict::kNotCheckable ? "muted" : look}});
  out.element("span", verdict_mark(law.verdict), {{"aria-hidden", "true"}, {"class", "mark"}});
  out.element("span", verdict_word(law.verdict)).close("td");
  out.element("td", std::to_string(law.n_checked), {{"class", "number"}});
  const bool open = law.verdict == Verdict::kNotCheckable;
  const std::string promise = info == nullptr ? std::string() : std::string(info->statement);
  out.element("td", open ? "add " + law.missing : promise, {{"class", open ? "muted" : ""}});
  out.close("tr");
}

void write_texts(std::string_view heading, const std::string& text, Html& out) {
  if (text.empty()) return;
  out.element("h4", heading).open("pre", {{"tabindex", "0"}}).text(text).close("pre");
}

}  // namespace

std::string verdict_text(const Report& report) {
  if (report.outcome == RunOutcome::kHang) return "Hang";
  if (report.outcome == RunOutcome::kError) return "Error";
  const auto n = static_cast<std::int64_t>(report.n_findings());
  return n == 0 ? "All checked laws hold" : counted(n, "finding");
}

std::string verdict_class(const Report& report) {
  return report.ok() && report.n_findings() == 0 ? "good" : "bad";
}

void write_verdict(const RunView& run, Html& out) {
  const Report& report = *run.report;
  const std::string look = verdict_class(report);
  out.open("p", {{"class", "verdict " + look}});
  out.element("span", look == "good" ? "\u2713" : "\u2717", {{"aria-hidden", "true"}});
  out.text(" " + verdict_text(report)).close("p");
  if (run.unmet) {
    out.element("p",
                run.unmet->empty() ? "It met its expectations." : "It did not meet expectations:",
                {{"class", "expectations"}});
    if (!run.unmet->empty()) out.open("ul");
    for (const std::string& complaint : *run.unmet) out.element("li", complaint);
    if (!run.unmet->empty()) out.close("ul");
  }
  out.open("dl", {{"class", "facts"}});
  write_fact("Ranks", std::to_string(report.n_ranks), out);
  write_fact("Backend", run.backend, out);
  write_fact("Events", std::to_string(report.n_events), out);
  if (report.trace_digest != 0) write_fact("Trace digest", hex64(report.trace_digest), out);
  write_fact("Result digest", hex64(report.result_digest), out);
  if (!report.replay.empty()) {
    out.element("dt", "Replay").open("dd").element("code", report.replay).close("dd");
  }
  out.close("dl");
}

void write_findings(const RunView& run, const std::string& id, Html& out) {
  const Report& report = *run.report;
  out.open_section(id + "-findings", "Findings");
  write_texts("The error", report.error, out);
  std::string attempts;
  for (std::size_t i = 0; i < report.attempts.size(); ++i) {
    attempts += "attempt " + std::to_string(i) + " ended: " + report.attempts[i] + "\n";
  }
  write_texts("Restarts", attempts, out);
  if (report.n_findings() == 0) {
    out.element("p", "No law is broken.", {{"class", "calm"}});
  } else {
    out.open("ol", {{"class", "findings"}});
    for (const LawResult& law : report.laws) {
      for (const Finding& finding : law.findings) write_finding(finding, report.replay, out);
    }
    out.close("ol");
  }
  write_texts("What the watchdog says", report.timeouts, out);
  std::string advice;
  for (const LawResult& law : report.laws) {
    for (const Advice& hint : law.advice) advice += hint.id + ": " + hint.message + "\n";
  }
  write_texts("Advice, not errors", advice, out);
  out.close("section");
}

void write_laws(const RunView& run, const std::string& id, Html& out) {
  out.open_section(id + "-laws", "Laws");
  out.open_table("Every law and its verdict", {"No.", "Law", "Verdict", "Checks", "Promise"});
  for (const LawResult& law : run.report->laws) write_law_row(law, out);
  out.close_table().close("section");
}

}  // namespace lockstep::page
