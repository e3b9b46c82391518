// The events of a small data-parallel job, one parameter, written call by call: what the laws read.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/laws/law.h"
#include "lockstep/trace/cohort.h"

#include "tests/support/event_stream.h"

namespace lockstep::testing {

/// One scalar parameter `weight` a wrapper. A gradient's digest is its bits; each of its four
/// signed sums is the value itself, which is as linear as the real ones.
class DdpJob {
 public:
  explicit DdpJob(std::int32_t n_ranks)
      : stream(n_ranks), weights(static_cast<std::size_t>(n_ranks), 1.0) {}

  EventStream stream;
  std::vector<double> weights;  ///< By rank.
  std::int32_t wrapper = 0;     ///< Where the next events belong.

  std::int32_t n_ranks() const { return stream.n_ranks(); }

  double& weight(std::int32_t rank) { return weights[static_cast<std::size_t>(rank)]; }

  LayoutId layout() { return stream.layout({"weight"}); }

  Position& at(std::int32_t rank) {
    stream.at(rank).wrapper = wrapper;
    return stream.at(rank);
  }

  void wrap(bool synchronizes = true) {
    for (std::int32_t rank = 0; rank < n_ranks(); ++rank) {
      at(rank);
      stream.add(rank,
                 WrapEvent{.params = layout(),
                           .buffer_policy = BufferPolicy::kBroadcast0,
                           .n_ranks = n_ranks(),
                           .synchronizes = synchronizes});
      state(rank, StatePoint::kWrap);
    }
  }

  void begin() {
    for (std::int32_t rank = 0; rank < n_ranks(); ++rank) state(rank, StatePoint::kForward);
  }

  void state(std::int32_t rank, StatePoint point) {
    state(rank, StateKind::kParam, point, weight(rank));
  }

  void state(std::int32_t rank, StateKind kind, StatePoint point, double value) {
    at(rank);
    const std::uint64_t digests[] = {std::bit_cast<std::uint64_t>(value)};
    stream.add(rank,
               StateEvent{.kind = kind, .point = point, .layout = layout(), .digests = digests});
  }

  /// The rank's next forward finds its weight other than it was last recorded.
  void found(std::int32_t rank) {
    ++at(rank).sync;
    state(rank, StatePoint::kFound);
    --at(rank).sync;
  }

  void forward(std::int32_t rank, bool synchronizing = true, bool through_wrapper = true) {
    Position& position = at(rank);
    if (synchronizing && through_wrapper) ++position.sync;
    ++position.micro;
    stream.add(rank,
               ForwardEvent{.through_wrapper = through_wrapper, .synchronizing = synchronizing});
  }

  void batch(std::int32_t rank,
             std::int64_t n_samples,
             std::int64_t n_tokens,
             double denominator,
             std::string_view declared) {
    at(rank);
    stream.add(rank,
               BatchEvent{.n_samples = n_samples,
                          .n_tokens = n_tokens,
                          .denominator = denominator,
                          .declared = stream.name(declared)});
  }

  void grad(std::int32_t rank, GradPoint point, double value, bool undefined = false) {
    at(rank);
    const std::uint64_t digests[] = {undefined ? 0 : std::bit_cast<std::uint64_t>(value)};
    const Sketch sketches[] = {{std::abs(value), {value, value, value, value}}};
    const std::int64_t n_elems[] = {1};
    const std::uint8_t bits[] = {static_cast<std::uint8_t>(undefined ? 1 : 0)};
    stream.add(rank,
               GradEvent{.point = point,
                         .layout = layout(),
                         .digests = digests,
                         .sketches = sketches,
                         .n_elems = n_elems,
                         .undefined = bits,
                         .dtype = DType::kF64});
  }

  /// This rank's backward with a reduction: contribution, .grad before, .grad after.
  void reduce(std::int32_t rank, double increment, double before, double after) {
    grad(rank, GradPoint::kInc, increment);
    grad(rank, GradPoint::kPre, before);
    grad(rank, GradPoint::kPost, after);
    stream.add(rank, BackwardEvent{.reduced = true});
  }

  /// weight -= lr * used.
  void step(std::int32_t rank, double used, double lr = 1.0, bool skipped = false) {
    grad(rank, GradPoint::kUsed, used);
    if (!skipped) weight(rank) -= lr * used;
    state(rank, StatePoint::kStep);
    stream.add(rank, StepEvent{.lr = lr, .skipped = skipped, .layout = layout()});
    if (!skipped) ++at(rank).opt;
    at(rank).micro = -1;
  }

  /// A healthy step from the ranks' local gradients.
  void train_step(const std::vector<double>& locals) {
    const double mean =
        std::accumulate(locals.begin(), locals.end(), 0.0) / static_cast<double>(locals.size());
    for (std::int32_t rank = 0; rank < n_ranks(); ++rank) {
      const double local = locals[static_cast<std::size_t>(rank)];
      forward(rank);
      reduce(rank, local, local, mean);
      step(rank, mean);
    }
  }

  void end(std::int32_t rank, EndOutcome outcome = EndOutcome::kOk) {
    stream.add(rank, EndEvent{.outcome = outcome});
  }
};

inline LawPolicy policy_of(std::int32_t n_ranks) {
  LawPolicy policy;
  policy.n_ranks = n_ranks;
  return policy;
}

inline LawResult check(std::string_view law,
                       const EventStream& stream,
                       const LawPolicy& policy,
                       std::span<const std::uint32_t> draws = {}) {
  std::unique_ptr<Law> checker = std::move(make_law(law, policy).value());
  stream.play(*checker, draws);
  return checker->finish(stream.trace().names());
}

inline LawResult check(std::string_view law, const EventStream& stream) {
  return check(law, stream, policy_of(stream.n_ranks()));
}

/// What the law says of ranks in step, whose events it gets all at once.
inline LawResult check_together(std::string_view law, const EventStream& stream) {
  const std::array<std::string, 1> ids = {std::string(law)};
  LawSet laws = std::move(LawSet::make(policy_of(stream.n_ranks()), ids).value());
  Cohort cohort;
  cohort.begin(stream.n_ranks(), laws, nullptr);
  stream.play(cohort);
  cohort.flush(stream.trace().names());
  return laws.finish(stream.trace().names()).front();
}

}  // namespace lockstep::testing
