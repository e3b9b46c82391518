// Reports for people at a terminal. The answer comes first: a reader who sees one screen sees the
// verdict, the likely causes, where the laws were broken and how to repeat the run.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/finding_groups.h"
#include "lockstep/laws/detail/finding_text.h"
#include "lockstep/laws/law.h"
#include "lockstep/laws/report.h"
#include "lockstep/trace/detail/first_pairing.h"

namespace lockstep {

namespace {

constexpr std::size_t kScreenLines = 24;
constexpr std::size_t kScreenColumns = 100;
constexpr std::size_t kMostErrorLines = 14;

constexpr std::string_view kRed = "31";
constexpr std::string_view kGreen = "32";
constexpr std::string_view kYellow = "33";
constexpr std::string_view kBold = "1";

std::string painted(bool color, std::string_view code, const std::string& text) {
  return color ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

/// How many lines of a screen `text` takes, each of its own lines wrapped where the screen ends.
std::size_t screen_lines(std::string_view text) {
  std::size_t n = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    n += std::max<std::size_t>(1, (end + kScreenColumns - 1) / kScreenColumns);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return n;
}

constexpr std::string_view kLines = "\n";  // Kept in text that may have several lines.

/// The findings of a law without anything that a terminal would act upon.
void make_printable(LawResult& law) {
  for (Finding& finding : law.findings) {
    finding.message = printable(finding.message, kLines);
    for (std::string* name :
         {&finding.event, &finding.tensor, &finding.field, &finding.site, &finding.other_site}) {
      *name = printable(*name);
    }
  }
  for (Advice& advice : law.advice) advice.message = printable(advice.message, kLines);
}

/// Titles, names, sites and messages come from files that others wrote.
Report printable_report(Report report) {
  for (std::string* text : {&report.error, &report.wait_for_graph, &report.timeouts}) {
    *text = printable(*text, kLines);
  }
  for (std::string* text : {&report.title, &report.first_divergence, &report.replay}) {
    *text = printable(*text);
  }
  for (std::vector<std::string>* texts : {&report.attempts, &report.notes}) {
    for (std::string& text : *texts) text = printable(text);
  }
  for (LawResult& law : report.laws) make_printable(law);
  return report;
}

std::string counted(std::size_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

std::size_t n_laws(const Report& report, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(report.laws.begin(), report.laws.end(), [verdict](const LawResult& law) {
        return law.verdict == verdict;
      }));
}

/// Text of several lines as one block: further lines are indented.
std::string indented(std::string text, const std::string& by) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::string out = by;
  for (const char letter : text) {
    out += letter;
    if (letter == '\n') out += by;
  }
  return out + "\n";
}

bool is_long(const std::string& error) { return screen_lines(error) > kMostErrorLines; }

/// ": findings: 2 laws broken", ": error: rank 1: out of memory".
std::string verdict_text(const Report& report) {
  const std::size_t n_broken = n_laws(report, Verdict::kBroken);
  std::string outcome(name_of(report.outcome));
  if (report.outcome == RunOutcome::kError) {
    std::string error = report.error;
    if (is_long(error)) error = error.substr(0, kMostErrorLines * kScreenColumns) + " ...";
    return outcome + (error.empty() ? "" : ": " + error);
  }
  if (n_broken == 0) return outcome;
  return outcome + ": " + counted(n_broken, "law", "laws") + " broken";
}

/// Which findings a screen begins with, and what is left for later.
class Head {
 public:
  Head(const Report& report, bool color) : report_(&report), color_(color) {
    const std::string ranks = counted(static_cast<std::size_t>(report.n_ranks), "rank", "ranks");
    add((report.title.empty() ? ranks : report.title + " (" + ranks + ")") + ": " +
        painted(color, report.ok() ? kGreen : kRed, verdict_text(report)) + "\n");
    replay_ = report.replay.empty() || report.ok() ? "" : "Replay: " + report.replay + "\n";
    const std::vector<laws::FindingBlock> blocks = laws::blocks_of(report);
    has_cause_ = !blocks.empty() && blocks.front().cause != Cause::kNone;
    for (const laws::FindingBlock& block : blocks) {
      if (!is_shown_by_the_graph(block, blocks.size())) add_block(block);
    }
    if (!replay_.empty()) out_ += "\n" + painted(color_, kBold, "Replay:") + replay_.substr(7);
  }

  const std::string& text() const { return out_; }

  /// What did not fit.
  const std::string& rest() const { return rest_; }

 private:
  void add(const std::string& text) {
    out_ += text;
    n_lines_ += screen_lines(text);
  }

  // Who waits for whom says more.
  bool is_shown_by_the_graph(const laws::FindingBlock& block, std::size_t n_blocks) const {
    return block.cause == Cause::kNone && block.law == "progress" && n_blocks > 1 &&
           !report_->wait_for_graph.empty();
  }

  /// One of the findings that stand below those with a cause.
  bool is_also(const laws::FindingBlock& block) const {
    return has_cause_ && block.cause == Cause::kNone;
  }

  /// What the block's places have in common.
  std::string heading(const laws::FindingBlock& block) const {
    if (block.cause != Cause::kNone) {
      const CauseInfo& cause = describe(block.cause);
      return "Likely cause: " + painted(color_, kYellow, std::string(cause.id)) + ". " +
             std::string(cause.sentence) + "\n";
    }
    if (is_also(block)) return "Also broken:\n";
    const LawInfo* const law = find_law(block.law);
    return "Likely cause: not known. Law " + laws::law_in_capitals(block.law) +
           (law == nullptr ? "\n" : ": " + std::string(law->statement) + "\n");
  }

  std::string advice(const laws::FindingBlock& block) const {
    if (block.cause != Cause::kNone) {
      const CauseInfo& cause = describe(block.cause);
      return "  Remedy: " + std::string(cause.remedy) +
             "\n  Read more: " + std::string(cause.page) + "\n";
    }
    const LawInfo* const law = find_law(block.law);
    if (law == nullptr || is_also(block)) return {};
    return "  Read more: docs/laws.md#" + std::to_string(law->number) + "-" + block.law + "\n";
  }

  /// The block with its first `n` places.
  std::string block_text(const laws::FindingBlock& block, std::size_t n) const {
    std::string text = says_also_ && is_also(block) ? "" : "\n" + heading(block);
    for (std::size_t i = 0; i < n; ++i) text += "  " + laws::line_of(block.places[i]) + "\n";
    const std::size_t n_more = block.places.size() - n;
    if (n_more > 0) text += "  " + counted(n_more, "more place", "more places") + " below\n";
    return text + advice(block);
  }

  /// As much of it as the screen holds: the first block in any case, one place of it at least.
  void add_block(const laws::FindingBlock& block) {
    const std::size_t room = kScreenLines - std::min(kScreenLines, n_lines_ + n_reserved());
    std::size_t n = std::min(block.places.size(), kScreenLines);
    while (n > 1 && screen_lines(block_text(block, n)) > room) --n;
    const std::string text = block_text(block, n);
    if (!is_first_ && screen_lines(text) > room) n = 0;
    if (n > 0) says_also_ = says_also_ || is_also(block);
    if (n > 0) add(text);
    is_first_ = false;
    if (n == 0 && !is_also(block)) rest_ += heading(block);
    for (std::size_t i = n; i < block.places.size(); ++i) {
      rest_ += "  " + laws::line_of(block.places[i]) + "\n";
    }
    if (n == 0) rest_ += advice(block);
  }

  std::size_t n_reserved() const { return replay_.empty() ? 0 : 1 + screen_lines(replay_); }

  const Report* report_;
  bool color_;
  bool has_cause_ = false;
  bool is_first_ = true;
  bool says_also_ = false;  // The heading of further findings stands already.
  std::string out_;
  std::string rest_;
  std::string replay_;
  std::size_t n_lines_ = 0;
};

/// Who waits for whom, without the first pairing of different calls where a finding reports it.
std::string waits_text(const Report& report) {
  const bool reported =
      std::any_of(report.laws.begin(), report.laws.end(), [](const LawResult& law) {
        return law.law == "collectives-match" && !law.findings.empty();
      });
  std::string out;
  std::string_view left = report.wait_for_graph;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    if (reported && line.starts_with(kFirstPairing)) continue;
    if (!line.empty()) out += "  " + std::string(line) + "\n";
  }
  return out.empty() ? out : "who waits for whom:\n" + out;
}

/// What explains the first screen, each thing once.
std::string details_text(const Report& report, const std::string& rest) {
  std::string out = rest.empty() ? "" : "further findings:\n" + rest;
  if (!report.first_divergence.empty()) {
    out += "ranks differ since: " + report.first_divergence + "\n";
  }
  const bool in_verdict = report.outcome == RunOutcome::kError && !is_long(report.error);
  if (!report.error.empty() && !in_verdict) {
    out += "first failure:\n" + indented(report.error, "  ");
  }
  out += waits_text(report);
  if (!report.timeouts.empty())
    out += "what the watchdog says:\n" + indented(report.timeouts, "  ");
  for (std::size_t i = 0; i < report.attempts.size(); ++i) {
    out += "attempt " + std::to_string(i) + " ended: " + report.attempts[i] + "\n";
  }
  for (const std::string& note : report.notes) out += "note: " + note + "\n";
  for (const LawResult& law : report.laws) {
    for (const Advice& advice : law.advice) {
      out += "advice " + advice.id + ": " + advice.message + "\n";
    }
  }
  return out;
}

/// "laws: 2 broken, 1 holds, 14 not checkable (--laws lists them)"
std::string laws_line(const Report& report, std::string_view option) {
  const std::size_t n_holds = n_laws(report, Verdict::kHolds);
  const std::array<std::pair<std::size_t, std::string_view>, 3> parts = {
      {{n_laws(report, Verdict::kBroken), "broken"},
       {n_holds, n_holds == 1 ? "holds" : "hold"},
       {n_laws(report, Verdict::kNotCheckable), "not checkable"}}};
  std::string text;
  for (const auto& [n, what] : parts) {
    if (n == 0) continue;
    text += (text.empty() ? "laws: " : ", ") + std::to_string(n) + " " + std::string(what);
  }
  if (text.empty()) return {};
  if (!option.empty()) text += " (" + std::string(option) + " lists them)";
  return text + "\n";
}

std::string digests_line(const Report& report) {
  std::string out = std::to_string(report.n_events) + " events, ";
  // Real ranks have no one order of their events.
  if (report.trace_digest != 0) out += "trace digest " + hex64(report.trace_digest) + ", ";
  return out + "result digest " + hex64(report.result_digest) + "\n";
}

/// "  replicas-equal  holds (12 checks)", names padded to `width`.
std::string verdict_line(const LawResult& law, std::size_t width, bool color) {
  const std::string name = "  " + law.law + std::string(width - law.law.size() + 2, ' ');
  switch (law.verdict) {
    case Verdict::kHolds:
      return name + painted(color, kGreen, "holds") + " (" + std::to_string(law.n_checked) +
             " checks)\n";
    case Verdict::kBroken:
      return name + painted(color, kRed, "broken") + "\n";
    case Verdict::kNotCheckable:
      return name + painted(color, kYellow, "not checkable") + ": add " + law.missing + "\n";
  }
  return name + "\n";
}

}  // namespace

std::string render_laws(const Report& report, bool color) {
  std::size_t width = 0;
  for (const LawResult& law : report.laws) width = std::max(width, law.law.size());
  std::string out;
  for (const LawResult& law : report.laws) out += verdict_line(law, width, color);
  return out;
}

std::string render_text(const Report& report, const TextOptions& options) {
  const Report shown = printable_report(report);
  const Head head(shown, options.color);
  const std::string details = details_text(shown, head.rest());
  std::string out = head.text();
  if (!details.empty()) out += "\n" + details;
  if (!details.empty() || !shown.ok()) out += "\n";
  out += options.laws ? render_laws(shown, options.color) : laws_line(shown, options.laws_option);
  return options.digests ? out + digests_line(shown) : out;
}

std::string render_text(const Report& report, bool color) {
  return render_text(report, TextOptions{.color = color});
}

}  // namespace lockstep
