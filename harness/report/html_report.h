// Runs as one web page: what was found, and pictures of where and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/harness/timing/run_times.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/wait_for.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// What the page shows of one run.
struct RunView {
  const Report* report = nullptr;               ///< Never null.
  const MemoryTrace* trace = nullptr;           ///< Null: verdict and findings only.
  const sim::WaitForGraph* wait_for = nullptr;  ///< Null: who waits for whom is unknown.
  std::string backend = "sim";
  bool one_clock = true;                         ///< The ranks' times can be compared.
  std::vector<std::vector<double>> losses = {};  ///< By rank, one per step; empty = the trace's.
  std::int64_t first_loss_step = 0;  ///< Of their first one: more than 0 after a restart.
  /// The expectations that were not met, as text; absent: there were none to meet.
  std::optional<std::vector<std::string>> unmet = {};
};

/// Where the run's time went; absent: without a trace, times or steps there is nothing to say.
std::optional<RunTimes> times_of(const RunView& run);

/// One HTML file with the verdict, the findings, the laws, a timeline, loss curves, a heat map of
/// diverged replicas, the gradient buckets, and who waits for whom.
///
/// The file is complete: no scripts, fonts, pictures or links outside of itself. Whatever comes
/// from a run (titles, names, messages, sites) is escaped. Each picture has a table next to it.
/// Pictures show a part of long runs and say which; once a page holds kPictureBytes, further runs
/// are added without pictures, and it says so.
///
/// Deterministic: the same runs give the same bytes.
class HtmlReport {
 public:
  static constexpr std::size_t kPictureBytes = std::size_t{8} << 20U;

  void add(const RunView& run);
  /// The whole file.
  std::string str() const;

 private:
  struct Entry {
    std::string title;
    std::string outcome;
    std::string expectations;  ///< "met", "not met" or empty: there were none.
    bool good = true;
  };

  std::string overview() const;

  std::vector<Entry> entries_;
  std::string runs_;
};

}  // namespace lockstep
