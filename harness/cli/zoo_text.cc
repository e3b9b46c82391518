// The scoreboard as text and as JSON.
#include <algorithm>
#include <map>
#include <set>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/harness/cli/zoo.h"

namespace lockstep::cli {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// "replicas-equal step 1", "collectives-match call 0"; in brackets when it was not asked for.
std::string fired_text(const ZooRow& row, const ZooFinding& finding) {
  std::string text = finding.law;
  if (finding.step) text += " step " + std::to_string(*finding.step);
  if (finding.seq) text += " call " + std::to_string(*finding.seq);
  return contains(row.expected, finding.law) ? text : "(" + text + ")";
}

/// What the run showed: how it ended, where that says more than the laws, and the laws.
std::string shown(const ZooRow& row) {
  std::vector<std::string> parts;
  if (!is_complete(row.outcome)) parts.emplace_back(name_of(row.outcome));
  for (const ZooFinding& finding : row.fired) parts.push_back(fired_text(row, finding));
  const bool buggy = row.kind == ZooKind::kBuggy;
  if (buggy) parts.insert(parts.end(), row.advice.begin(), row.advice.end());
  return parts.empty() ? "-" : join(parts);
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text + "  ";
}

std::string name_of_row(const ZooRow& row) {
  const std::string file = row.scenario.substr(0, row.scenario.rfind(".toml"));
  return row.variant.empty() ? file : file + " [" + row.variant + "]";
}

/// "PyTorch's DETAIL mode, where it was run: 2 diagnosed, 9 silent"
std::string detail_summary(const std::vector<ZooRow>& rows) {
  std::map<std::string, std::int64_t> counts;
  for (const ZooRow& row : rows) {
    if (!row.torch_detail.empty()) ++counts[row.torch_detail];
  }
  std::vector<std::string> parts;
  parts.reserve(counts.size());
  for (const auto& [outcome, n] : counts) parts.push_back(std::to_string(n) + " " + outcome);
  return parts.empty() ? "" : "PyTorch's DETAIL mode, where it was run: " + join(parts) + "\n";
}

std::string plural(std::int64_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

std::string totals(const std::vector<ZooRow>& rows) {
  const std::int64_t n_other = count(rows, ZooVerdict::kDiffers);
  return std::to_string(count(rows, ZooVerdict::kCaught)) + " caught, " +
         std::to_string(count(rows, ZooVerdict::kQuiet)) + " quiet, " +
         plural(count(rows, ZooVerdict::kMiss), "miss", "misses") + ", " +
         plural(count(rows, ZooVerdict::kFalseAlarm), "false alarm", "false alarms") +
         (n_other == 0 ? "" : ", " + std::to_string(n_other) + " otherwise than expected") + "\n";
}

std::size_t count_bugs(const std::vector<ZooRow>& rows) {
  std::set<std::string_view> bugs;
  for (const ZooRow& row : rows) {
    if (row.kind == ZooKind::kBuggy) bugs.insert(row.bug);
  }
  return bugs.size();
}

void write_texts(JsonText& out, std::string_view key, const std::vector<std::string>& texts) {
  out.key(key).open_array();
  for (const std::string& text : texts) out.text(text);
  out.close_array();
}

void write_fired(JsonText& out, const ZooRow& row) {
  out.key("fired").open_array();
  for (const ZooFinding& finding : row.fired) {
    out.open_object().key("law").text(finding.law).key("step");
    finding.step ? out.integer(*finding.step) : out.null();
    out.key("seq");
    finding.seq ? out.integer(*finding.seq) : out.null();
    out.key("tensor").text(finding.tensor).key("sentence").text(finding.sentence).close_object();
  }
  out.close_array();
}

}  // namespace

void write_row(JsonText& out, const ZooRow& row) {
  out.open_object();
  out.key("bug").text(row.bug);
  out.key("scenario").text(row.scenario);
  out.key("variant").text(row.variant);
  out.key("kind").text(name_of(row.kind));
  out.key("verdict").text(name_of(row.verdict));
  out.key("outcome").text(name_of(row.outcome));
  out.key("expected_outcome").text(name_of(row.expected_outcome));
  write_texts(out, "expected", row.expected);
  write_fired(out, row);
  write_texts(out, "advice", row.advice);
  write_texts(out, "held", row.held);
  out.key("torch_detail").text(row.torch_detail);
  write_texts(out, "complaints", row.complaints);
  out.close_object();
}

std::string render_zoo_text(const std::vector<ZooRow>& rows) {
  std::size_t bug_width = 3;
  std::size_t name_width = 8;
  for (const ZooRow& row : rows) {
    bug_width = std::max(bug_width, row.bug.size());
    name_width = std::max(name_width, name_of_row(row).size());
  }
  constexpr std::size_t kKindWidth = 10;
  constexpr std::size_t kVerdictWidth = 11;
  constexpr std::size_t kDetailWidth = 17;
  std::string text = padded("bug", bug_width) + padded("scenario", name_width) +
                     padded("kind", kKindWidth) + padded("verdict", kVerdictWidth) +
                     padded("PyTorch's DETAIL", kDetailWidth) + "what fired, and where first\n";
  for (const ZooRow& row : rows) {
    text += padded(row.bug, bug_width) + padded(name_of_row(row), name_width) +
            padded(std::string(name_of(row.kind)), kKindWidth) +
            padded(std::string(name_of(row.verdict)), kVerdictWidth) +
            padded(row.torch_detail, kDetailWidth) + shown(row) + "\n";
    for (const std::string& complaint : row.complaints) text += "    " + complaint + "\n";
  }
  return text + "\n" + std::to_string(count_bugs(rows)) + " bugs in " +
         std::to_string(rows.size()) + " runs: " + totals(rows) + detail_summary(rows);
}

std::string render_zoo_json(const std::vector<ZooRow>& rows) {
  JsonText out;
  out.open_object().key("lockstep_zoo").integer(1);
  out.key("caught").integer(count(rows, ZooVerdict::kCaught));
  out.key("quiet").integer(count(rows, ZooVerdict::kQuiet));
  out.key("misses").integer(count(rows, ZooVerdict::kMiss));
  out.key("false_alarms").integer(count(rows, ZooVerdict::kFalseAlarm));
  out.key("differs").integer(count(rows, ZooVerdict::kDiffers));
  out.key("rows").open_array();
  for (const ZooRow& row : rows) write_row(out, row);
  out.close_array().close_object();
  return out.str() + "\n";
}

}  // namespace lockstep::cli
