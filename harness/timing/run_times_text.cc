#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <string_view>

#include "lockstep/formats/json_text.h"
#include "lockstep/harness/timing/run_times.h"
#include "lockstep/laws/report.h"

namespace lockstep {

namespace {

/// Of a terminal.
constexpr std::size_t kShownCalls = 4;

std::string spread_text(const DurationSpread& spread) {
  const std::string median = duration_text(spread.median);
  const std::string least = duration_text(spread.least);
  const std::string most = duration_text(spread.most);
  return least == most ? median : fmt::format("{} ({} to {})", median, least, most);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"bytes", "KiB", "MiB", "GiB"};
  constexpr std::int64_t kStep = 1024;
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= kStep && unit + 1 < kUnits.size()) {
    value /= kStep;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string call_text(const CallTimes& call) {
  std::string text = fmt::format("  {}", name_of(call.op));
  if (call.n_bytes > 0)
    text += fmt::format(" of {} ({})", bytes_text(call.n_bytes), name_of(call.dtype));
  text += fmt::format(" on {} ranks, {} {}: {} after the last rank came",
                      call.n_ranks,
                      call.n_calls,
                      call.n_calls == 1 ? "call" : "calls",
                      spread_text(call.took));
  if (call.alg_gb_per_s > 0.0) {
    text += fmt::format("; {:.3g} GB/s, bus {:.3g} GB/s", call.alg_gb_per_s, call.bus_gb_per_s);
  }
  if (call.waited.most > 0)
    text += fmt::format("; the first rank waited {}", spread_text(call.waited));
  return text + "\n";
}

std::string late_text(const LateRanks& late, const std::string& node) {
  std::vector<Rank> ranks;
  ranks.reserve(late.ranks.size());
  for (const std::int32_t rank : late.ranks) ranks.push_back(Rank{rank});
  return fmt::format(
      "  late: {}{} came {} after the others (median) at {} of {} calls that ranks waited for\n",
      ranks_text(ranks),
      node.empty() ? std::string() : fmt::format(" (all of node {})", node),
      duration_text(late.behind_ns),
      late.n_calls,
      late.of_calls);
}

std::int64_t n_of(const StepCalls& step) {
  std::int64_t n = 0;
  for (const SizedCalls& calls : step.calls) n += calls.n;
  return n;
}

std::int64_t bytes_of(const StepCalls& step) {
  std::int64_t n_bytes = 0;
  for (const SizedCalls& calls : step.calls) n_bytes += calls.n * calls.n_bytes;
  return n_bytes;
}

/// Calls that wait for one another each seem slower than they are.
std::string step_text(const StepCalls& step) {
  const double n_bytes = static_cast<double>(bytes_of(step));
  return fmt::format(
      "  together, the {} calls of a step have {} and keep their links busy for {}: {:.3g} GB/s\n",
      n_of(step),
      bytes_text(bytes_of(step)),
      duration_text(step.busy_ns),
      n_bytes / static_cast<double>(step.busy_ns));
}

void write_step(JsonText& out, const StepCalls& step) {
  out.open_object();
  out.key("steps").integer(step.n_steps);
  out.key("calls").integer(n_of(step));
  out.key("bytes").integer(bytes_of(step));
  out.key("busy_ns").integer(step.busy_ns);
  out.close_object();
}

void write_spread(JsonText& out, std::string_view key, const DurationSpread& spread) {
  out.key(key).open_object();
  out.key("least_ns").integer(spread.least);
  out.key("median_ns").integer(spread.median);
  out.key("most_ns").integer(spread.most);
  out.close_object();
}

void write_call(JsonText& out, const CallTimes& call) {
  out.open_object();
  out.key("op").text(name_of(call.op));
  out.key("dtype").text(name_of(call.dtype));
  out.key("bytes").integer(call.n_bytes);
  out.key("ranks").integer(call.n_ranks);
  out.key("calls").integer(call.n_calls);
  write_spread(out, "took", call.took);
  write_spread(out, "waited", call.waited);
  out.key("alg_gb_per_s").real(call.alg_gb_per_s);
  out.key("bus_gb_per_s").real(call.bus_gb_per_s);
  out.close_object();
}

void write_late(JsonText& out, const RunTimes& times) {
  out.key("late");
  if (!times.late) {
    out.null();
    return;
  }
  out.open_object();
  out.key("ranks").open_array();
  for (const std::int32_t rank : times.late->ranks) out.integer(rank);
  out.close_array();
  out.key("node").text(times.late_node);
  out.key("calls").integer(times.late->n_calls);
  out.key("of_calls").integer(times.late->of_calls);
  out.key("behind_ns").integer(times.late->behind_ns);
  out.close_object();
}

}  // namespace

std::string duration_text(std::int64_t ns) {
  constexpr std::array<std::string_view, 4> kUnits = {"ns", "us", "ms", "s"};
  constexpr double kStep = 1000.0;
  std::size_t unit = 0;
  auto value = static_cast<double>(ns);
  // 999.95 would be printed as 1000.
  while (std::abs(value) >= kStep - 0.05 && unit + 1 < kUnits.size()) {
    value /= kStep;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string times_text(const RunTimes& times) {
  std::string text = fmt::format("Time ({}): a step takes {}, median of {} steps of ranks\n",
                                 times.clock == RunClock::kVirtual ? "virtual" : "as recorded",
                                 spread_text(times.step),
                                 times.n_steps);
  text += fmt::format("  computing {}; communicating {}, of which {} exposed: {:.0f} % is hidden\n",
                      spread_text(times.compute),
                      spread_text(times.communication),
                      spread_text(times.exposed),
                      100.0 * times.hidden);
  for (std::size_t i = 0; i < std::min(kShownCalls, times.calls.size()); ++i) {
    text += call_text(times.calls[i]);
  }
  if (times.calls.size() > kShownCalls) {
    text += fmt::format("  {} more kinds of calls took less time (file reports list them)\n",
                        times.calls.size() - kShownCalls);
  }
  if (!times.step_calls.empty()) {
    const StepCalls& usual = times.step_calls.front();
    if (n_of(usual) > 1 && usual.busy_ns > 0) text += step_text(usual);
  }
  if (times.late) text += late_text(*times.late, times.late_node);
  if (times.n_own_async > 0) {
    text += fmt::format(
        "  {} asynchronous calls of the program are not counted as exposed: their waits were not "
        "recorded\n",
        times.n_own_async);
  }
  if (times.clock == RunClock::kSeparate) {
    text += "  collectives are left out: the ranks' clocks are not synchronised\n";
  }
  return text;
}

void write_times(JsonText& out, const RunTimes& times) {
  out.open_object();
  out.key("clock").text(name_of(times.clock));
  out.key("ranks").integer(times.n_ranks);
  out.key("steps").integer(times.n_steps);
  write_spread(out, "step", times.step);
  write_spread(out, "compute", times.compute);
  write_spread(out, "communication", times.communication);
  write_spread(out, "exposed", times.exposed);
  out.key("hidden").real(times.hidden);
  out.key("own_async_calls").integer(times.n_own_async);
  out.key("collectives").open_array();
  for (const CallTimes& call : times.calls) write_call(out, call);
  out.close_array();
  out.key("step_calls").open_array();
  for (const StepCalls& step : times.step_calls) write_step(out, step);
  out.close_array();
  write_late(out, times);
  out.close_object();
}

}  // namespace lockstep
