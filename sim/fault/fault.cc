#include "lockstep/sim/fault/fault.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/random/generator.h"

namespace lockstep::sim {

namespace {

constexpr std::array kAnywhere = {FaultKind::kException,
                                  FaultKind::kExit,
                                  FaultKind::kSigkill,
                                  FaultKind::kSigterm,
                                  FaultKind::kOutOfMemory,
                                  FaultKind::kHang,
                                  FaultKind::kLate,
                                  FaultKind::kDiskFull};
constexpr std::uint32_t kFateCount = 4;
constexpr std::int64_t kSwarmDelayNs = 1'000'000;
// Every step of every job has them.
constexpr std::array<std::string_view, 3> kPlaces = {"forward", "collective", "step"};
constexpr std::uint32_t kFileSteps = 16;

void draw_place(const SwarmOptions& options, Generator& draw, Fault& fault) {
  if (options.n_steps == 0) {
    fault.event = draw.random() % options.n_events;
    return;
  }
  const auto step = static_cast<std::int64_t>(draw.random()) % options.n_steps;
  const std::string_view place = kPlaces[draw.random() % kPlaces.size()];
  if (fault.kind == FaultKind::kTornWrite) {
    fault.file_step = draw.random() % kFileSteps;
    return;
  }
  fault.step = step;
  fault.at = is_contribution(fault.kind) ? "all_reduce" : place;
}

// How much, for the kinds that have it.
void draw_harm(Generator& draw, Fault& fault) {
  constexpr std::uint32_t kElements = 1024;
  constexpr std::uint32_t kBits = 32;
  fault.permille = 2000 + static_cast<std::int64_t>(draw.random() % 8) * 1000;
  fault.element = draw.random() % kElements;
  fault.bit = static_cast<std::int32_t>(draw.random() % kBits);
  fault.result = draw.random() % 2 == 1;
}

}  // namespace

bool is_contribution(FaultKind kind) {
  return kind >= FaultKind::kLost && kind <= FaultKind::kStale;
}

std::string describe(const Fault& fault) {
  std::string text = "rank " + std::to_string(fault.rank) + ": " + std::string(name_of(fault.kind));
  if (fault.kind == FaultKind::kExit && fault.code != 1) text += " " + std::to_string(fault.code);
  if (fault.event) text += " at event " + std::to_string(*fault.event);
  if (fault.file_step) text += " at file step " + std::to_string(*fault.file_step);
  if (fault.time) text += " at " + std::to_string(fault.time->ns) + " ns";
  if (!fault.at.empty()) {
    text += " at " + fault.at + " " + std::to_string(fault.nth);
    if (fault.step) text += " of step " + std::to_string(*fault.step);
  }
  return text;
}

std::vector<Fault> swarm(const SwarmOptions& options) {
  LOCKSTEP_CHECK(
      options.n_ranks > 0 && (options.n_steps > 0 || options.n_events > 0),
      fmt::format(
          "a swarm over {} ranks, {} steps and {} events: it has ranks and places to strike at",
          options.n_ranks,
          options.n_steps,
          options.n_events));
  Generator draw(options.seed);
  const std::vector<FaultKind> kinds =
      options.kinds.empty() ? std::vector<FaultKind>(kAnywhere.begin(), kAnywhere.end())
                            : options.kinds;
  std::vector<Fault> plan;
  plan.reserve(static_cast<std::size_t>(options.n_faults));
  for (std::int32_t i = 0; i < options.n_faults; ++i) {
    Fault fault;
    fault.kind = kinds[draw.random() % kinds.size()];
    fault.rank =
        static_cast<std::int32_t>(draw.random() % static_cast<std::uint32_t>(options.n_ranks));
    fault.attempt = options.by_attempt ? i : 0;
    draw_place(options, draw, fault);
    fault.delay = Duration{kSwarmDelayNs};
    fault.fate = static_cast<CrashFate>(draw.random() % kFateCount);
    draw_harm(draw, fault);
    plan.push_back(std::move(fault));
  }
  return plan;
}

}  // namespace lockstep::sim
