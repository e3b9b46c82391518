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
constexpr std::array<EventKind, 3> kPlaces = {
    EventKind::kForward, EventKind::kCollective, EventKind::kStep};
constexpr std::uint32_t kFileSteps = 16;

void draw_place(const SwarmOptions& options, Generator& draw, Fault& fault) {
  if (options.n_steps == 0) {
    fault.event = draw.random() % options.n_events;
    return;
  }
  const auto step = static_cast<std::int64_t>(draw.random()) % options.n_steps;
  const Occasion place = kPlaces[draw.random() % kPlaces.size()];
  if (fault.kind == FaultKind::kTornWrite) {
    fault.file_step = draw.random() % kFileSteps;
    return;
  }
  fault.step = step;
  fault.at.emplace(place);
  if (is_contribution(fault.kind)) fault.at.emplace(CollectiveOp::kAllReduce);
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

std::optional<Occasion> Occasion::named(std::string_view word) {
  if (const auto kind = parse_enum<EventKind>(word)) return Occasion(*kind);
  if (const auto op = parse_enum<CollectiveOp>(word)) return Occasion(*op);
  return std::nullopt;
}

std::string_view Occasion::name() const { return any_op_ ? name_of(kind_) : name_of(op_); }

bool Occasion::includes(const Event& event) const {
  if (any_op_) return kind_of(event.body) == kind_;
  const auto* call = std::get_if<CollectiveEvent>(&event.body);
  return call != nullptr && call->signature.op == op_;
}

bool Occasion::is_of_groups() const {
  const bool of_pairs = op_ == CollectiveOp::kSend || op_ == CollectiveOp::kRecv;
  return kind_ == EventKind::kCollective && !of_pairs;
}

bool is_contribution(FaultKind kind) {
  return kind >= FaultKind::kLost && kind <= FaultKind::kStale;
}

std::string describe(const Fault& fault) {
  std::string text = "rank " + std::to_string(fault.rank) + ": " + std::string(name_of(fault.kind));
  if (fault.kind == FaultKind::kExit && fault.code != 1) text += " " + std::to_string(fault.code);
  if (fault.event) text += " at event " + std::to_string(*fault.event);
  if (fault.file_step) text += " at file step " + std::to_string(*fault.file_step);
  if (fault.time) text += " at " + std::to_string(fault.time->ns) + " ns";
  if (fault.at) {
    text += " at " + std::string(fault.at->name()) + " " + std::to_string(fault.nth);
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
