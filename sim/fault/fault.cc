#include "lockstep/sim/fault/fault.h"

#include <algorithm>
#include <array>

#include "lockstep/random/generator.h"

namespace lockstep::sim {

namespace {

constexpr std::array<std::string_view, 15> kKinds = {"exception",
                                                     "exit",
                                                     "sigkill",
                                                     "sigterm",
                                                     "out-of-memory",
                                                     "hang",
                                                     "late",
                                                     "slow",
                                                     "lose",
                                                     "delay",
                                                     "duplicate",
                                                     "corrupt",
                                                     "stale",
                                                     "disk-full",
                                                     "torn-write"};
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

}  // namespace

std::string_view name_of(FaultKind kind) { return kKinds.at(static_cast<std::size_t>(kind)); }

std::optional<FaultKind> parse_fault_kind(std::string_view name) {
  const auto* const found = std::find(kKinds.begin(), kKinds.end(), name);
  if (found == kKinds.end()) return std::nullopt;
  return static_cast<FaultKind>(found - kKinds.begin());
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

std::vector<Fault> swarm(std::uint64_t seed,
                         std::int32_t n_faults,
                         std::int32_t n_ranks,
                         std::uint64_t n_events) {
  Generator draw(seed);
  std::vector<Fault> plan;
  for (std::int32_t attempt = 0; attempt < n_faults; ++attempt) {
    Fault fault;
    fault.kind = kAnywhere[draw.random() % kAnywhere.size()];
    fault.rank = static_cast<std::int32_t>(draw.random() % static_cast<std::uint32_t>(n_ranks));
    fault.attempt = attempt;
    fault.event = draw.random() % n_events;
    fault.delay = Duration{kSwarmDelayNs};
    fault.fate = static_cast<CrashFate>(draw.random() % kFateCount);
    plan.push_back(fault);
  }
  return plan;
}

}  // namespace lockstep::sim
