#include "lockstep/harness/certify/detail/windows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lockstep/sim/session/session.h"

namespace lockstep {
namespace {

/// Folds one rank's events into windows.
class WindowFolder {
 public:
  explicit WindowFolder(const NameTable& names) : names_(names) {}

  void on(const Event& event) {
    at_ = event.at;
    if (const auto* value = std::get_if<ValueEvent>(&event.body)) on_value(*value);
    if (const auto* samples = std::get_if<SampleEvent>(&event.body)) on_samples(*samples);
    if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) on_call(*call);
    if (std::holds_alternative<BackwardEvent>(event.body)) reached_ = open_.micros.size();
    if (std::holds_alternative<ZeroGradEvent>(event.body)) on_cleared();
    if (std::holds_alternative<StepEvent>(event.body)) close(true);
  }

  std::vector<RankWindow> take() {
    on_cleared();
    return std::move(windows_);
  }

 private:
  void on_value(const ValueEvent& event) {
    const bool of_optimizer = names_.text(event.tensor).find('/') != std::string_view::npos;
    if (of_optimizer || event.point != ValuePoint::kGradUsed) return;
    open_.used.assign(event.values.begin(), event.values.end());
  }

  void on_samples(const SampleEvent& event) {
    if (!is_train_split(names_.text(event.split))) return;
    if (open_.micros.empty()) open_.epoch = at_.epoch;
    open_.micros.push_back({.ids = {event.ids.begin(), event.ids.end()}, .site = {}});
  }

  void on_call(const CollectiveEvent& event) {
    const bool posts = event.phase == CollectivePhase::kPosted;
    if (!posts || event.signature.op != CollectiveOp::kAllReduce || open_.micros.empty()) return;
    open_.micros.back().site = event.signature.site.text();
  }

  /// Micro-steps whose backward is over have gradients, and those are gone now. One that has only
  /// seen its forward belongs to what follows.
  void on_cleared() {
    if (reached_ == 0) return;
    RankWindow rest;
    for (std::size_t i = reached_; i < open_.micros.size(); ++i) {
      rest.micros.push_back(std::move(open_.micros[i]));
    }
    open_.micros.resize(reached_);
    close(false);
    open_ = std::move(rest);
  }

  void close(bool stepped) {
    open_.stepped = stepped;
    if (open_.micros.empty()) open_.epoch = at_.epoch;
    if (stepped) last_step_ = at_.opt;
    open_.step = last_step_;
    windows_.push_back(std::move(open_));
    open_ = {};
    reached_ = 0;
  }

  const NameTable& names_;
  Position at_;
  RankWindow open_;
  std::int64_t last_step_ = -1;
  std::size_t reached_ = 0;  ///< Micro-steps of the open window that have seen a backward.
  std::vector<RankWindow> windows_;
};

/// How many windows of `epoch` begin at `at`.
std::size_t n_of_epoch(const std::vector<RankWindow>& windows, std::size_t at, std::int64_t epoch) {
  std::size_t n = 0;
  while (at + n < windows.size() && windows[at + n].epoch == epoch) ++n;
  return n;
}

}  // namespace

std::vector<std::vector<RankWindow>> windows_of(const MemoryTrace& trace, std::int32_t n_ranks) {
  std::vector<std::vector<RankWindow>> ranks;
  std::int64_t last_epoch = 0;
  for (std::int32_t r = 0; r < n_ranks; ++r) {
    ranks.push_back(windows_of(trace, Rank{r}));
    for (const RankWindow& window : ranks.back()) last_epoch = std::max(last_epoch, window.epoch);
  }
  std::vector<std::size_t> at(ranks.size());
  for (std::int64_t epoch = 0; epoch <= last_epoch; ++epoch) {
    std::size_t most = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      most = std::max(most, n_of_epoch(ranks[r], at[r], epoch));
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const std::size_t own = n_of_epoch(ranks[r], at[r], epoch);
      const auto end = ranks[r].begin() + static_cast<std::ptrdiff_t>(at[r] + own);
      ranks[r].insert(end, most - own, RankWindow{.epoch = epoch});
      at[r] += most;
    }
  }
  return ranks;
}

std::vector<RankWindow> windows_of(const MemoryTrace& trace, Rank rank) {
  WindowFolder folder(trace.names());
  for (const Event& event : trace.events(rank)) folder.on(event);
  return folder.take();
}

std::string why_unfinished(const sim::SessionResult& run) {
  const Report& report = run.report;
  if (!is_complete(report.outcome)) {
    return std::string(name_of(report.outcome)) + (report.error.empty() ? "" : ": " + report.error);
  }
  return run.attempts.back().finished ? "" : "a rank failed in a collective";
}

}  // namespace lockstep
