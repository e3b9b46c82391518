// Events a second that all trace laws take in: 1,024 ranks and 1,000 steps, and the memory it
// needs.
//
//   law_bench [RANKS] [STEPS]
//
// A real job of three steps is recorded; its middle step is then played again and again, at later
// and later places.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <sys/resource.h>
#include <vector>

#include "lockstep/laws/law.h"
#include "lockstep/run.h"
#include "lockstep/sim/session/session.h"
#include "lockstep/trace/cohort.h"

#include "bench/tiny_mlp.h"

namespace lockstep {
namespace {

constexpr std::int32_t kRepeated = 1;  // The step that is played again.

/// Moves an event of the repeated step `n` steps further.
Event later(Event event, std::int64_t n, std::int64_t calls_per_step) {
  event.at.sync += static_cast<std::int32_t>(n);
  event.at.opt += static_cast<std::int32_t>(n);
  if (auto* call = std::get_if<CollectiveEvent>(&event.body)) call->seq += n * calls_per_step;
  return event;
}

struct Parts {
  std::vector<std::vector<Event>> before;  // By rank.
  std::vector<std::vector<Event>> step;
  std::int64_t calls_per_step = 0;
};

Parts parts_of(const MemoryTrace& trace) {
  Parts parts;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    parts.before.emplace_back();
    parts.step.emplace_back();
    for (const Event& event : trace.events(Rank{r})) {
      if (event.at.sync < kRepeated) parts.before.back().push_back(event);
      if (event.at.sync != kRepeated) continue;
      parts.step.back().push_back(event);
      const auto* call = std::get_if<CollectiveEvent>(&event.body);
      if (r == 0 && call != nullptr && call->phase == CollectivePhase::kPosted) {
        ++parts.calls_per_step;
      }
    }
  }
  return parts;
}

double resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

void measure(std::int32_t n_ranks, std::int64_t n_steps) {
  sim::Session session;
  sim::SessionOptions options;
  options.n_ranks = n_ranks;
  const auto run =
      session.run(options, [](RankContext& context) { bench::train_tiny(context, 3); });
  if (!run.ok() || !run.value().report.ok()) throw std::runtime_error("the recorded job failed");
  const MemoryTrace& trace = *run.value().trace;
  const Parts parts = parts_of(trace);
  Result<LawSet> laws = LawSet::make({.n_ranks = n_ranks});
  if (!laws.ok()) throw std::runtime_error(laws.error().text());
  Cohort readers;
  readers.begin(n_ranks, laws.value(), nullptr);
  for (const std::vector<Event>& rank : parts.before) {
    for (const Event& event : rank) readers.on_event(event, trace.names());
  }
  const double mib_before = resident_mib();
  std::int64_t n_events = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < n_steps; ++step) {
    for (const std::vector<Event>& rank : parts.step) {
      for (const Event& event : rank) {
        readers.on_event(later(event, step, parts.calls_per_step), trace.names());
        ++n_events;
      }
    }
  }
  readers.flush(trace.names());
  const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
  for (const LawResult& law : laws.value().finish(trace.names())) {
    if (law.verdict == Verdict::kBroken) throw std::runtime_error(law.law + " is broken");
  }
  std::printf("laws: %d ranks, %lld steps, %lld events, %.2f s, %.0f events/s, %.1f MiB grown\n",
              n_ranks,
              static_cast<long long>(n_steps),
              static_cast<long long>(n_events),
              span.count(),
              static_cast<double>(n_events) / span.count(),
              resident_mib() - mib_before);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    lockstep::measure(argc > 1 ? std::atoi(argv[1]) : 1024, argc > 2 ? std::atoll(argv[2]) : 1000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
