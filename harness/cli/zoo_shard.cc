// `lockstep zoo --shard`: the rows of one shard as a part, and the parts of all as one scoreboard.
#include <cstdint>
#include <filesystem>
#include <utility>

#include "lockstep/formats/json_text.h"
#include "lockstep/harness/cli/explore_report.h"
#include "lockstep/harness/cli/progress_line.h"
#include "lockstep/harness/cli/zoo.h"

namespace lockstep::cli {
namespace {

using explore::Part;
using explore::PartLine;

/// One word a variant: rows are numbered by their place in this list.
std::vector<explore::Fact> zoo_facts(const ZooArguments& arguments,
                                     const std::vector<Scenario>& scenarios,
                                     const std::string& folder) {
  explore::Fact variants{.name = "variants", .values = {}};
  for (const Scenario& scenario : scenarios) {
    const auto file = std::filesystem::path(scenario.path).lexically_relative(folder);
    variants.values.push_back(file.generic_string() + " " + scenario.digest + " " +
                              scenario.variant);
  }
  return {{"folder", {arguments.folder}}, std::move(variants)};
}

ZooFinding finding_of(PartLine& line) {
  ZooFinding finding;
  finding.law = line.text("law");
  if (!line.is_null("step")) finding.step = static_cast<std::int64_t>(line.number("step"));
  if (!line.is_null("seq")) finding.seq = static_cast<std::int64_t>(line.number("seq"));
  finding.tensor = line.text("tensor");
  finding.sentence = line.text("sentence");
  return finding;
}

/// What write_row wrote.
ZooRow row_of(PartLine line) {
  ZooRow row;
  row.bug = line.text("bug");
  row.scenario = line.text("scenario");
  row.variant = line.text("variant");
  row.kind = line.choice<ZooKind>("kind");
  row.verdict = line.choice<ZooVerdict>("verdict");
  row.outcome = line.choice<RunOutcome>("outcome");
  row.expected_outcome = line.choice<RunOutcome>("expected_outcome");
  row.expected = line.texts("expected");
  for (PartLine& fired : line.objects("fired")) row.fired.push_back(finding_of(fired));
  row.advice = line.texts("advice");
  row.held = line.texts("held");
  row.torch_detail = line.text("torch_detail");
  row.complaints = line.texts("complaints");
  return row;
}

/// Adds one part's rows at their places. Errors: a line that makes no sense; rows that are not
/// exactly those of the shard.
Outcome add_rows(const Part& part, std::vector<ZooRow>& rows) {
  const explore::Shard& shard = part.header().shard;
  std::uint64_t expected = shard.next(0);
  Outcome read = part.each([&](PartLine& line) {
    if (line.number("row") != expected || expected >= rows.size()) {
      line.complain(
          "row",
          "row " + std::to_string(expected) + " of shard " + text_of(shard) + " belongs here");
      return line.outcome();
    }
    rows[expected] = row_of(line.object("is"));
    expected += shard.count;
    return line.outcome();
  });
  if (!read.ok()) return read;
  if (expected >= rows.size()) return success();
  return Error{"row " + std::to_string(expected) + " is missing", part.place_of("shard")};
}

}  // namespace

ExitCode zoo_shard(const ZooArguments& arguments,
                   const std::vector<Scenario>& scenarios,
                   const std::string& folder,
                   Terminal& terminal) {
  const Result<explore::Shard> shard = shard_of(arguments.shard, arguments.part);
  if (!shard.ok()) return bad_input(terminal, shard.error().text());
  std::vector<std::string> lines;
  std::size_t n_unmet = 0;
  ProgressLine progress(terminal);
  for (std::uint64_t i = shard.value().next(0); i < scenarios.size(); i += shard.value().count) {
    progress.count(i, scenarios.size(), "scenarios");
    const ZooRow row = zoo_row(scenarios[i], folder);
    if (!row.complaints.empty()) ++n_unmet;
    JsonText out;
    out.open_object().key("row").integer(static_cast<std::int64_t>(i)).key("is");
    write_row(out, row);
    lines.push_back(out.close_object().str());
  }
  progress.clear();
  const std::string said = std::to_string(n_unmet) + " of " + std::to_string(lines.size()) +
                           " runs otherwise than expected";
  return write_part(arguments.part,
                    {.work = explore::SharedWork::kScenarios,
                     .shard = shard.value(),
                     .library = library_name(),
                     .facts = zoo_facts(arguments, scenarios, folder)},
                    lines,
                    {.text = said, .all_well = n_unmet == 0},
                    terminal);
}

ExitCode merge_zoo(const std::vector<Part>& parts,
                   const MergeArguments& arguments,
                   Terminal& terminal) {
  std::vector<ZooRow> rows(parts.front().header().values("variants").size());
  for (const Part& part : parts) {
    const Outcome added = add_rows(part, rows);
    if (!added.ok()) return bad_input(terminal, added.error().text());
  }
  return report_zoo(std::move(rows), arguments.json, terminal);
}

}  // namespace lockstep::cli
