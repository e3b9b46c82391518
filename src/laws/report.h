// The outcome of a run in words: findings as sentences, laws as a table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/laws/finding.h"

namespace lockstep {

/// Everything a run ends with.
struct Report {
  std::string title = {};
  std::int32_t n_ranks = 0;
  std::string outcome = "ok";  ///< "ok" | "findings" | "hang" | "error"
  std::string error = {};      ///< outcome "error": the first exception, with rank and site.
  std::vector<LawResult> laws = {};
  std::string wait_for_graph = {};  ///< outcome "hang": who waits for whom, one line a rank group.
  std::string wait_for_dot = {};    ///< The same for Graphviz.
  std::string timeouts = {};  ///< What watchdogs said, a line an operation; the verdict needs none.
  /// Why each attempt but the last ended, when an elastic agent started the job again.
  std::vector<std::string> attempts = {};
  std::vector<std::string> notes = {};  ///< How the names of a foreign recorder became ours.
  /// Where what the ranks share begins to differ, and what was still equal; empty: not asked for.
  std::string first_divergence = {};
  std::string replay = {};  ///< The command that repeats this run.
  std::uint64_t trace_digest = 0;
  std::uint64_t result_digest = 0;
  std::int64_t n_events = 0;

  bool ok() const { return outcome == "ok"; }

  std::size_t n_findings() const;
};

/// "step 17, after optimizer.step: parameter `fc2.weight`[5,7] differs on rank 3 (law
/// REPLICAS-EQUAL).
/// ... Likely: lr-per-rank."
std::string sentence(const Finding& finding);
/// Ranks as "rank 3" or "ranks 0-2, 5".
std::string ranks_text(const std::vector<Rank>& ranks);
/// The whole report for a terminal. `color` adds ANSI colours.
std::string render_text(const Report& report, bool color);
/// Documented, stable schema (docs/report_format.md).
std::string render_json(const Report& report);
/// JUnit XML: one test case a law.
std::string render_junit(const Report& report);
/// The same for several runs: a suite a run.
std::string render_junit(std::span<const Report> reports);

}  // namespace lockstep
