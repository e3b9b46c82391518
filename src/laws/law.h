// The interface of a law: a streaming checker over events, blind to which backend made them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/cohort.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// What a law is checked from.
enum class LawKind : std::uint8_t {
  kTrace,     ///< One trace, while it streams.
  kBoth,      ///< One trace shows a part of it; the rest takes companion runs.
  kRelation,  ///< Companion runs: single process, resumed, repeated. Checked above the simulator.
};

/// One entry of the numbered contract (docs/laws.md, `lockstep laws`).
struct LawInfo {
  std::int32_t number = 0;       ///< Stable.
  std::string_view id;           ///< "replicas-equal"
  std::string_view detector;     ///< Key used in bug reports: "I-PARAM".
  std::string_view statement;    ///< One sentence.
  std::string_view source;       ///< Where the promise comes from.
  std::string_view blind_spots;  ///< What a quiet law does not prove.
  LawKind kind = LawKind::kTrace;
};

/// What a law may assume about the job: declared by a scenario, a policy file or run_ranks options.
struct LawPolicy {
  std::int32_t n_ranks = 0;  ///< World size.
  bool exact = false;        ///< Arithmetic was proved exact: averages must match exactly.
  bool watched = false;      ///< Accesses to memory in flight were recorded.
  bool one_clock = true;     ///< Times of different ranks can be compared.
  /// Digests cover 1/coverage of each large tensor per step, in rotation (RecordOptions::coverage).
  std::int32_t coverage = 1;
  /// Communication hooks that say they round may do so, within the bound of their precision, and
  /// those that do something else than averaging are not judged.
  bool hooks_may_lose = true;
  std::string declared_mean = {};       ///< Overrides the batch events' declaration, or empty.
  std::vector<std::string> allow = {};  ///< "LAW@TENSOR" or "LAW": exempted on purpose.
  /// What buffers are meant to be; kNone: what the wrap event says.
  BufferPolicy buffers = BufferPolicy::kNone;
  bool more_follows = false;  ///< The trace is cut: what its rest may refute is not yet a finding.
};

/// Checks one promise over a stream of events.
///
/// Events of one rank arrive in their order; ranks interleave arbitrarily, so a law aligns them by
/// position, never by arrival. Memory is bounded by the number of ranks times the tensors of the
/// steps that are still incomplete, not by the length of the trace.
class Law : public CohortSink {
 public:
  virtual const LawInfo& info() const = 0;
  /// A LawSet spares it events of other kinds.
  EventKinds reads() const override = 0;
  /// Delivers it rank by rank, unless the law knows better.
  void on_cohort(const CohortEvent& event, const NameTable& names) override;
  /// The verdict after the last event. Called once.
  virtual LawResult finish(const NameTable& names) = 0;
  /// Fields the recorder must compute for this law.
  virtual void require(RecordOptions& options) const = 0;
};

/// The laws that can be checked on one trace, if only in part, in the order of their numbers.
std::span<const LawInfo> trace_laws();
/// Every law of the contract, relation laws (checked from companion runs) included.
std::span<const LawInfo> all_laws();
/// The entry of one law, or null.
const LawInfo* find_law(std::string_view id);
/// What to say to an id that no law has: with a suggestion, and all ids.
Error unknown_law(std::string_view id);
/// Errors: unknown id; a relation law; a law without a checker.
Result<std::unique_ptr<Law>> make_law(std::string_view id, const LawPolicy& policy);

namespace laws {
class Teams;
}  // namespace laws

/// Runs several laws over one stream: a sink for live runs, or replay() a stored trace into it.
///
/// Wrappers of one number that reduce over different groups are different ones to all laws: ranks
/// that never meet do not hold replicas of each other.
class LawSet final : public CohortSink {
 public:
  LawSet(LawSet&& other) noexcept;
  LawSet& operator=(LawSet&& other) noexcept;
  LawSet(const LawSet&) = delete;
  LawSet& operator=(const LawSet&) = delete;
  ~LawSet() override;

  /// All trace laws, or the named ones. Errors: unknown id.
  static Result<LawSet> make(const LawPolicy& policy, std::span<const std::string> ids = {});

  void on_event(const Event& event, const NameTable& names) override;
  void on_cohort(const CohortEvent& event, const NameTable& names) override;
  EventKinds reads() const override;
  /// Results in the order of the laws' numbers, with exemptions applied: findings that
  /// `policy.allow` names are left out, and a law without other findings holds.
  std::vector<LawResult> finish(const NameTable& names);
  /// The union of what the laws need.
  RecordOptions required() const;

 private:
  LawSet();
  void sort_readers();
  std::span<Law* const> readers_of(const EventBody& body) const;
  void tell(const Event& event, const NameTable& names);

  LawPolicy policy_;
  std::unique_ptr<laws::Teams> teams_;
  std::vector<std::unique_ptr<Law>> laws_;
  bool chosen_ = false;  // The laws were named.
  // Those of the first kind of event, then those of the second, ...: one list, since a set serves
  // small worlds by the thousand.
  std::vector<Law*> readers_;
  std::array<std::uint32_t, std::variant_size_v<EventBody> + 1> first_readers_{};  // By kind.
};

}  // namespace lockstep
