// Reports for programs: JSON (docs/report_format.md) and JUnit XML.
#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/formats/markup_text.h"
#include "lockstep/laws/causes.h"
#include "lockstep/laws/law.h"
#include "lockstep/laws/report.h"

namespace lockstep {

namespace {

std::string_view key_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kBroken:
      return "broken";
    case Verdict::kNotCheckable:
      return "not-checkable";
  }
  return "";
}

void write_ranks(JsonText& out, std::string_view key, const std::vector<Rank>& ranks) {
  out.key(key).open_array();
  for (const Rank rank : ranks) out.integer(to_int(rank));
  out.close_array();
}

void write_reals(JsonText& out, std::string_view key, const std::vector<double>& values) {
  out.key(key).open_array();
  for (const double value : values) out.real(value);
  out.close_array();
}

void write_optional(JsonText& out, std::string_view key, const std::optional<std::int64_t>& value) {
  out.key(key);
  if (value) {
    out.integer(*value);
  } else {
    out.null();
  }
}

/// The id, and what the table of causes says about it.
void write_cause(JsonText& out, const Finding& finding) {
  const CauseInfo info = finding.cause == Cause::kNone ? CauseInfo{} : describe(finding.cause);
  out.key("cause").text(info.id);
  out.key("cause_text").text(info.sentence);
  out.key("remedy").text(info.remedy);
  out.key("page").text(info.page);
}

void write_finding(JsonText& out, const Finding& finding) {
  out.open_object();
  out.key("law").text(finding.law);
  out.key("sentence").text(sentence(finding));
  out.key("message").text(finding.message);
  write_cause(out, finding);
  out.key("attempt").integer(finding.attempt);
  write_optional(out, "step", finding.step);
  out.key("epoch").integer(finding.epoch);
  out.key("event").text(finding.event);
  out.key("tensor").text(finding.tensor);
  write_optional(out, "element", finding.element);
  out.key("group").integer(finding.group);
  write_optional(out, "seq", finding.seq);
  out.key("field").text(finding.field);
  out.key("site").text(finding.site);
  out.key("other_site").text(finding.other_site);
  write_ranks(out, "ranks", finding.ranks);
  write_ranks(out, "missing", finding.missing);
  write_reals(out, "weights", finding.weights);
  write_reals(out, "declared", finding.declared);
  out.close_object();
}

void write_law(JsonText& out, const LawResult& law) {
  const LawInfo* const info = find_law(law.law);
  out.open_object();
  out.key("law").text(law.law);
  out.key("number").integer(info == nullptr ? 0 : info->number);
  out.key("verdict").text(key_of(law.verdict));
  out.key("missing").text(law.missing);
  out.key("checks").integer(law.n_checked);
  out.key("findings").open_array();
  for (const Finding& finding : law.findings) write_finding(out, finding);
  out.close_array();
  out.key("advice").open_array();
  for (const Advice& advice : law.advice) {
    out.open_object().key("id").text(advice.id).key("message").text(advice.message).close_object();
  }
  out.close_array();
  out.close_object();
}

}  // namespace

std::string render_json(const Report& report, const std::function<void(JsonText&)>& more) {
  JsonText out;
  out.open_object();
  out.key("lockstep_report").integer(1);
  out.key("title").text(report.title);
  out.key("ranks").integer(report.n_ranks);
  out.key("outcome").text(name_of(report.outcome));
  out.key("error").text(report.error);
  out.key("laws").open_array();
  for (const LawResult& law : report.laws) write_law(out, law);
  out.close_array();
  out.key("wait_for_graph").text(report.wait_for_graph);
  out.key("wait_for_dot").text(report.wait_for_dot);
  out.key("timeouts").text(report.timeouts);
  out.key("attempts").open_array();
  for (const std::string& attempt : report.attempts) out.text(attempt);
  out.close_array();
  out.key("notes").open_array();
  for (const std::string& note : report.notes) out.text(note);
  out.close_array();
  out.key("first_divergence").text(report.first_divergence);
  out.key("replay").text(report.replay);
  out.key("events").integer(report.n_events);
  out.key("trace_digest").word(report.trace_digest);
  out.key("result_digest").word(report.result_digest);
  if (more) more(out);
  out.close_object();
  return out.str() + "\n";
}

namespace {

std::string failure_of(const LawResult& law) {
  std::string text;
  for (const Finding& finding : law.findings) text += sentence(finding) + "\n";
  const std::size_t n = law.findings.size();
  return "<failure message=\"" + std::to_string(n) + (n == 1 ? " finding" : " findings") + "\">" +
         escape_markup(text) + "</failure>";
}

std::string test_suite(const Report& report) {
  std::size_t n_broken = 0;
  std::size_t n_skipped = 0;
  std::string cases;
  for (const LawResult& law : report.laws) {
    cases += "  <testcase classname=\"" + escape_markup(report.title) + "\" name=\"" +
             escape_markup(law.law) + "\"";
    if (law.verdict == Verdict::kHolds) {
      cases += "/>\n";
    } else if (law.verdict == Verdict::kNotCheckable) {
      ++n_skipped;
      cases += "><skipped message=\"not checkable: add " + escape_markup(law.missing) +
               "\"/></testcase>\n";
    } else {
      ++n_broken;
      cases += ">" + failure_of(law) + "</testcase>\n";
    }
  }
  const bool failed = !is_complete(report.outcome);
  if (failed) {
    const std::string text = report.error.empty() ? report.wait_for_graph : report.error;
    cases += "  <testcase classname=\"" + escape_markup(report.title) +
             "\" name=\"outcome\"><error message=\"" + std::string(name_of(report.outcome)) +
             "\">" + escape_markup(text) + "</error></testcase>\n";
  }
  return "<testsuite name=\"" + escape_markup(report.title) + "\" tests=\"" +
         std::to_string(report.laws.size() + (failed ? 1U : 0U)) + "\" failures=\"" +
         std::to_string(n_broken) + "\" errors=\"" + (failed ? "1" : "0") + "\" skipped=\"" +
         std::to_string(n_skipped) + "\">\n" + cases + "</testsuite>\n";
}

constexpr std::string_view kXmlHead = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

}  // namespace

std::string render_junit(const Report& report) {
  return std::string(kXmlHead) + test_suite(report);
}

std::string render_junit(std::span<const Report> reports) {
  if (reports.size() == 1) return render_junit(reports.front());
  std::string out = std::string(kXmlHead) + "<testsuites>\n";
  for (const Report& report : reports) out += test_suite(report);
  return out + "</testsuites>\n";
}

}  // namespace lockstep
