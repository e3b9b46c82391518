// The laws on a trace that is still being written.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/formats/jsonl.h"
#include "lockstep/laws/law.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// Judges a job while it runs: reads the events of its ranks, however far each has got, and says
/// which laws are broken for certain.
///
/// What is certain needs ranks that are level: a late one looks like one that left something
/// out. So events wait until every rank has begun a step with the same calls made in every group,
/// none of them open, and are then shown to the laws up to there. Some laws can say something about a
/// finished job only, and wait for check_trace(); see waits_for_the_end(). So does the difference of
/// replicas from a step on in which no rank reduced anything: their program may average later.
///
/// What a judge of a cut trace finds, check_trace() finds in the whole: the same law, step, tensor and
/// ranks. The likely cause may be named better there.
class LiveCheck final : public EventSink {
 public:
  /// `policy`: as of check_trace(); what the header says replaces its members.
  static Result<LiveCheck> make(const TraceHeader& header,
                                const LawPolicy& policy,
                                const std::shared_ptr<NameTable>& names);
  LiveCheck(LiveCheck&&) noexcept;
  LiveCheck& operator=(LiveCheck&&) noexcept;
  LiveCheck(const LiveCheck&) = delete;
  LiveCheck& operator=(const LiveCheck&) = delete;
  ~LiveCheck() override;

  /// Takes one event. Requires: each rank's in their order.
  void on_event(const Event& event, const NameTable& names) override;

  /// How often the laws have been shown more: as long as it does not change, nor do the findings.
  std::int64_t n_cuts() const { return n_cuts_; }

  /// What is certain by now, by the numbers of the laws. Ends this check: a caller that wants to go on
  /// asks a copy of its process.
  std::vector<LawResult> finish();
  /// The same of calls alone, whether ranks are level or not: for when none of them has done anything
  /// for a while. Calls of one group and number that every member has made can be compared.
  std::vector<LawResult> finish_calls();

 private:
  /// Calls made so far in each group that a rank knows it is a member of.
  using Calls = std::map<std::int32_t, std::int64_t>;

  /// A place between two events of a rank where a step begins.
  struct Boundary {
    std::size_t n_events = 0;  ///< Before it, of those that wait.
    std::int32_t attempt = 0;
    Calls calls = {};
    std::int64_t nth = 0;  ///< Of those with the same calls.
  };

  struct RankState {
    Calls calls = {};
    Calls next_seq = {};  ///< Of calls that all members of a group make.
    std::int64_t n_open = 0;
    bool stepped = false;  ///< Since the last boundary.
    std::vector<Boundary> boundaries = {};
    Boundary last = {};
  };

  LiveCheck(LawSet laws, LawSet calls, std::int32_t n_ranks, std::shared_ptr<NameTable> names);

  /// Returns: whether a step begins with this event.
  bool note(RankState& state, const Event& event);
  static void note_call(RankState& state, const CollectiveEvent& call);
  void advance();
  bool is_reached_by_all(const Boundary& level, std::vector<std::size_t>& n_events) const;
  static void note_reductions(std::span<const Event> events, std::map<std::int32_t, bool>& reduced);
  void show(const std::vector<std::size_t>& n_events);

  LawSet laws_;
  LawSet calls_;
  std::int32_t n_ranks_;
  std::shared_ptr<NameTable> names_;
  std::vector<RankState> ranks_;
  MemoryTrace waiting_;
  std::int32_t first_alone_ = std::numeric_limits<std::int32_t>::max();  // A step.
  std::int64_t n_cuts_ = 0;
};

/// Whether a law is judged when the job is over and not before: the end is what it is about, or a
/// rank may still make good what it left out.
bool waits_for_the_end(std::string_view law);

}  // namespace lockstep
