// Which rank all others repeatedly wait for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/cohort.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Measures when ranks arrive at calls of the whole world, before anything makes them wait: the
/// times of phases say nothing, since a reduction inside makes all of them equally long.
///
/// Looks at kMaxOpen incomplete calls at a time; older ones are forgotten.
class Stragglers {
 public:
  static constexpr std::size_t kMaxOpen = 4096;

  void on_posted(const Event& event, const CollectiveEvent& call, std::int32_t n_ranks);
  /// One call of every rank of the world.
  void on_all_posted(const CohortEvent& event, const CollectiveEvent& call);
  /// "A-straggler", where one rank is the last one at three quarters of the calls in which
  /// ranks wait (eight at least), and the others' waiting for it adds up to a tenth of the run.
  std::optional<Advice> advice() const;

 private:
  struct Call {
    std::int32_t n_arrived = 0;
    std::int32_t last_rank = 0;
    std::int64_t last = -1;    ///< When the last one came, in ns,
    std::int64_t before = -1;  ///< and the one before it.
  };

  bool looks_at(const Event& event, const CollectiveEvent& call, std::int32_t n_ranks);
  void arrive(Call& at, std::int32_t rank, std::int64_t now);
  void close(const Call& call);

  struct Lateness {
    std::int64_t n_last = 0;
    std::int64_t waited_ns = 0;
  };

  std::map<std::int64_t, Call> open_;  // By number, of the last attempt.
  std::map<std::int32_t, Lateness> late_;
  std::int64_t n_calls_ = 0;  // In which a rank waited.
  std::int64_t end_ns_ = 0;
  std::int32_t attempt_ = 0;
};

}  // namespace lockstep::laws
