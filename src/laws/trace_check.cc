#include "lockstep/laws/trace_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finish_report.h"
#include "lockstep/trace/cohort.h"
#include "lockstep/trace/trace_digest.h"

namespace lockstep {

namespace {

struct Endings {
  bool stuck = false;
  std::string error;         // The first rank that failed, as text.
  bool own_failure = false;  // Some rank failed on its own, not by a collective.
};

/// How one rank's events end.
struct RankEnding {
  EndOutcome outcome = EndOutcome::kNone;  // kNone: they stop before the program's end.
  EndReason reason = EndReason::kNone;
  std::string_view detail;
  bool collective_failed = false;
};

RankEnding ending_of(const MemoryTrace& trace, Rank rank) {
  RankEnding ending;
  for (const Event& event : trace.events(rank)) {
    if (const auto* end = std::get_if<EndEvent>(&event.body)) {
      ending.outcome = end->outcome;
      ending.reason = end->reason;
      ending.detail = trace.names().text(end->detail);
    }
    const auto* collective = std::get_if<CollectiveEvent>(&event.body);
    if (collective != nullptr && collective->phase == CollectivePhase::kFailed) {
      ending.collective_failed = true;
    }
  }
  return ending;
}

/// How many ranks the first attempt had and the last one has: they differ where an elastic agent
/// started a job again with fewer nodes or more.
struct Attempts {
  std::int32_t n_first = 0;
  std::int32_t n_last = 0;
};

Attempts attempts_of(const LoadedTrace& loaded) {
  const MemoryTrace& trace = *loaded.trace;
  std::int32_t last = 0;
  std::int32_t n_first = 0;
  laws::Worlds worlds(loaded.header.n_ranks);
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    const std::span<const Event> events = trace.events(Rank{r});
    if (!events.empty() && events.front().at.attempt == 0) ++n_first;
    for (const Event& event : events) {
      worlds.on_event(event);
      last = std::max(last, event.at.attempt);
    }
  }
  if (last == 0) return {loaded.header.n_ranks, loaded.header.n_ranks};
  return {n_first, worlds.of(last)};
}

/// Ranks without a trace, where all others ended as they should: nothing is known against them.
std::vector<Rank> unseen_ranks(const MemoryTrace& trace, std::int32_t n_ranks) {
  std::vector<Rank> unseen;
  std::int32_t n_seen = 0;
  for (std::int32_t r = 0; r < std::min(n_ranks, trace.n_ranks()); ++r) {
    if (trace.events(Rank{r}).empty()) {
      unseen.push_back(Rank{r});
    } else if (ending_of(trace, Rank{r}).outcome == EndOutcome::kOk) {
      ++n_seen;
    } else {
      return {};
    }
  }
  return n_seen > 0 ? unseen : std::vector<Rank>();
}

std::string unseen_note(const std::vector<Rank>& ranks) {
  return ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have") +
         " left no trace here, and no other rank waited for " +
         (ranks.size() == 1 ? "it" : "them") + ": what only " +
         (ranks.size() == 1 ? "its trace shows" : "their traces show") +
         " was not checked. Pass the trace folders of all nodes.";
}

/// What recorders could not record, each with the ranks that say so.
void add_missed(const MemoryTrace& trace, std::vector<std::string>& notes) {
  std::map<std::string_view, std::vector<Rank>> missed;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    for (const Event& event : trace.events(Rank{r})) {
      const auto* log = std::get_if<LogEvent>(&event.body);
      if (log == nullptr || log->kind != LogKind::kMissed) continue;
      std::vector<Rank>& ranks = missed[trace.names().text(log->text)];
      if (ranks.empty() || ranks.back() != Rank{r}) ranks.push_back(Rank{r});
    }
  }
  constexpr std::size_t kMostNotes = 16;
  std::size_t n_notes = 0;
  for (const auto& [what, ranks] : missed) {
    if (n_notes++ == kMostNotes) {
      notes.push_back("and " + std::to_string(missed.size() - kMostNotes) +
                      " more that were not recorded; the trace lists them all");
      return;
    }
    notes.push_back("not recorded on " + ranks_text(ranks) +
                    ", so not checked: " + std::string(what));
  }
}

Endings endings_of(const MemoryTrace& trace,
                   std::int32_t n_ranks,
                   const std::vector<Rank>& unseen) {
  Endings endings;
  if (!unseen.empty()) return endings;  // All others ended as they should.
  for (std::int32_t r = 0; r < std::min(n_ranks, trace.n_ranks()); ++r) {
    const RankEnding ending = ending_of(trace, Rank{r});
    endings.stuck = endings.stuck || ending.outcome == EndOutcome::kStuck;
    if (ending.outcome == EndOutcome::kOk || ending.outcome == EndOutcome::kStuck) continue;
    if (ending.reason == EndReason::kLawBroken) continue;  // Not of its own doing.
    if (!ending.collective_failed) endings.own_failure = true;
    if (!endings.error.empty()) continue;
    endings.error = "rank " + std::to_string(r) + ": ";
    endings.error += ending.outcome == EndOutcome::kNone
                         ? std::string_view("its trace ends before its program did")
                         : ending.detail;
  }
  return endings;
}

/// What a recorder with a budget looked at on one rank.
struct Looked {
  using Steps = std::set<std::pair<std::int32_t, std::int32_t>>;  // By wrapper.

  explicit Looked(std::span<const Event> events) {
    for (const Event& event : events) {
      const std::pair place{event.at.wrapper, event.at.opt};
      if (event.at.wrapper >= 0) {
        std::int32_t& n = n_steps[event.at.wrapper];
        n = std::max(n, event.at.opt + std::holds_alternative<StepEvent>(event.body));
      }
      if (std::holds_alternative<StepEvent>(event.body)) all.insert(place);
      const auto* grad = std::get_if<GradEvent>(&event.body);
      if (grad != nullptr && grad->point == GradPoint::kUsed) looked.insert(place);
    }
  }

  /// The largest number of steps from one that was looked at to the next.
  std::int32_t longest_way() const {
    std::int32_t longest = 0;
    for (auto at = looked.begin(); at != looked.end(); ++at) {
      const auto next = std::next(at);
      const bool follows = next != looked.end() && next->first == at->first;
      if (follows) longest = std::max(longest, next->second - at->second);
    }
    return longest;
  }

  /// Those included that left nothing in the trace.
  std::size_t n_all() const {
    std::size_t n = 0;
    for (const auto& [wrapper, n_own] : n_steps) n += static_cast<std::size_t>(n_own);
    return std::max(n, all.size());
  }

  Steps all;  // That left an event.
  Steps looked;
  std::map<std::int32_t, std::int32_t> n_steps;  // By wrapper.
};

/// In how many steps a recorder with a budget looked at gradients and states, or nothing: of the rank
/// that looked most seldom.
std::string looked_note(const MemoryTrace& trace) {
  std::size_t n_looked = std::numeric_limits<std::size_t>::max();
  std::size_t n_steps = 0;
  std::size_t n_left_out = 0;
  std::int32_t longest = 0;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    const Looked rank(trace.events(Rank{r}));
    longest = std::max(longest, rank.longest_way());
    if (rank.all.empty() || rank.looked.size() >= n_looked) continue;
    n_looked = rank.looked.size();
    n_steps = rank.n_all();
    n_left_out = n_steps - rank.all.size();
  }
  if (n_steps == 0) return "";
  std::string note =
      fmt::format("gradients and states were checked in {} of {} steps", n_looked, n_steps);
  if (longest > 1) note += fmt::format(", at most {} steps from one to the next", longest);
  note += ", and one small parameter in every step";
  if (n_left_out > 0) {
    note += fmt::format(" but {}, of which only samples and call counts were recorded", n_left_out);
  }
  return note + fmt::format(
                    ". Shorter errors may have been missed, and a reported one may have begun up "
                    "to {} steps earlier.",
                    std::max(0, longest - 1));
}

}  // namespace

Result<Report> check_trace(const LoadedTrace& loaded,
                           const LawPolicy& policy,
                           std::span<const std::string> ids) {
  const MemoryTrace& trace = *loaded.trace;
  LawPolicy full = policy;
  const Attempts attempts = attempts_of(loaded);
  full.n_ranks = attempts.n_first;
  full.exact = loaded.header.exact;
  full.watched = loaded.header.watched;
  full.coverage = loaded.header.coverage;
  full.one_clock = loaded.header.has_one_clock();
  Result<LawSet> laws = LawSet::make(full, ids);
  if (!laws.ok()) return laws.error();

  TraceDigest digest;
  Cohort cohort;
  cohort.begin(full.n_ranks, laws.value(), &digest);
  replay(trace, cohort);
  cohort.flush(trace.names());

  Report report;
  report.n_ranks = loaded.header.n_ranks;
  report.laws = laws.value().finish(trace.names());
  // Files keep each rank's order, not the interleaving that a trace digest covers: the run's own
  // names it.
  report.trace_digest = parse_hex64(loaded.header.run_id).value_or(0);
  report.result_digest = digest.result();
  report.n_events = digest.n_events();
  const std::vector<Rank> unseen = unseen_ranks(trace, attempts.n_last);
  const Endings endings = endings_of(trace, attempts.n_last, unseen);
  report.error = endings.error;
  report.stuck = endings.stuck;
  report.own_failure = endings.own_failure;
  report.notes = loaded.notes;
  if (!unseen.empty()) report.notes.push_back(unseen_note(unseen));
  add_missed(trace, report.notes);
  if (loaded.header.sampled) {
    if (std::string note = looked_note(trace); !note.empty()) {
      report.notes.push_back(std::move(note));
    }
  }
  finish_report(report);
  return report;
}

}  // namespace lockstep
