// What surrounds the program of one rank: its last event, the watch over its memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/comm/rank_context.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/trace/recorder.h"
#include "lockstep/trace/touch_recorder.h"

namespace lockstep::sim {

/// Writes the rank's last event however its program ends. A guard, because exceptions that are not
/// std::exception (a property-test library's) must pass through untouched.
class EndOfRank {
 public:
  EndOfRank(Recorder* recorder, const bool& stuck) : recorder_(recorder), stuck_(&stuck) {}

  EndOfRank(const EndOfRank&) = delete;
  EndOfRank& operator=(const EndOfRank&) = delete;
  EndOfRank(EndOfRank&&) = delete;
  EndOfRank& operator=(EndOfRank&&) = delete;
  ~EndOfRank();

  void note(EndOutcome outcome, std::string detail, EndReason why = EndReason::kNone) {
    outcome_ = outcome;
    detail_ = std::move(detail);
    why_ = why;
  }

  bool stuck() const { return *stuck_; }

 private:
  Recorder* recorder_;
  const bool* stuck_;
  EndOutcome outcome_ = EndOutcome::kNone;
  std::string detail_;
  EndReason why_ = EndReason::kNone;
};

/// Returns through exceptions only; `comm_error` says which kind it was.
void run_body(const std::function<void(RankContext&)>& body,
              RankContext& context,
              EndOfRank& end,
              std::uint8_t& comm_error);

/// Records accesses to memory in flight if anything reads those records. Then `contents` can be
/// trusted, too.
class MemoryWatch {
 public:
  MemoryWatch(Runtime& runtime, Recorder* recorder, Contents& contents);

 private:
  InFlight in_flight_;
  ExchangeWatch exchanges_;
  std::optional<TouchRecorder> pen_;
  std::optional<ExchangeRecorder> exchange_pen_;
};

}  // namespace lockstep::sim
