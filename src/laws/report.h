// The outcome of a run as text: findings as sentences, laws as a table.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/laws/run_outcome.h"

namespace lockstep {

class JsonText;

/// Everything a run ends with.
struct Report {
  std::string title = {};
  std::int32_t n_ranks = 0;
  RunOutcome outcome = RunOutcome::kOk;
  std::string error = {};    ///< kError: the first exception, with rank and site.
  bool stuck = false;        ///< No rank could continue.
  bool own_failure = false;  ///< A rank failed, and not only because a collective had failed.
  std::vector<LawResult> laws = {};
  std::string wait_for_graph = {};  ///< kHang: who waits for whom, one line per rank group.
  std::string wait_for_dot = {};    ///< The same for Graphviz.
  std::string timeouts = {};  ///< Of watchdogs, one line per operation; not part of the verdict.
  /// Why each attempt but the last ended, when an elastic agent started the job again.
  std::vector<std::string> attempts = {};
  std::vector<std::string> notes = {};  ///< How the names of a foreign recorder became ours.
  /// Where what the ranks share begins to differ, and what was still equal; empty: not asked for.
  std::string first_divergence = {};
  std::string replay = {};  ///< The command that repeats this run.
  std::uint64_t trace_digest = 0;
  std::uint64_t result_digest = 0;
  std::int64_t n_events = 0;

  bool ok() const { return outcome == RunOutcome::kOk; }

  std::size_t n_findings() const;
};

/// "step 17, after optimizer.step: parameter `fc2.weight`[5,7] differs on rank 3 (law
/// REPLICAS-EQUAL).
/// ... Likely: lr-per-rank."
std::string sentence(const Finding& finding);
/// Ranks as "rank 3" or "ranks 0-2, 5".
std::string ranks_text(const std::vector<Rank>& ranks);

/// How a report is shown on a terminal.
struct TextOptions {
  bool color = false;                 ///< ANSI colours.
  bool laws = false;                  ///< The table of render_laws instead of one line.
  std::string_view laws_option = {};  ///< What asks for that table: named next to the line.
  bool digests = true;                ///< Ends with the number of events and the digests.
};

/// The whole report for a terminal. The first screen, 24 lines of 100 columns, holds the verdict,
/// the likely causes, where the laws were broken and how to replay the run; what explains it
/// follows. Findings of one cause are one block, and those that differ only in their tensor are one
/// line.
std::string render_text(const Report& report, const TextOptions& options);
std::string render_text(const Report& report, bool color);
/// Every law with its verdict: a line each.
std::string render_laws(const Report& report, bool color);
/// Documented, stable schema (docs/report_format.md). `more` adds members of rooms above this one.
std::string render_json(const Report& report, const std::function<void(JsonText&)>& more = {});
/// JUnit XML: one test case per law.
std::string render_junit(const Report& report);
/// The same for several runs: one suite per run.
std::string render_junit(std::span<const Report> reports);

}  // namespace lockstep
