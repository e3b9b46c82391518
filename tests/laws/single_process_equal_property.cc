#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

// A sum y over the ranks enters every rank's loss. What a rank's wrapper takes is right exactly if
// the gradient that the rank passes on is the sum of what arrived on all of them.
RC_GTEST_PROP(SingleProcessEqualProperty, OnlyGradientsOfAllRanksAreAccepted, ()) {
  const auto n_ranks = *rc::gen::inRange<std::int32_t>(2, 6);
  const auto averages = *rc::gen::arbitrary<bool>();
  const auto answers = *rc::gen::arbitrary<bool>();
  const auto scaled = *rc::gen::arbitrary<bool>();  // Each rank's loss, by the number of ranks.
  const auto arrived = *rc::gen::container<std::vector<int>>(static_cast<std::size_t>(n_ranks),
                                                             rc::gen::inRange(1, 4));
  double sum = 0.0;
  for (const int gradient : arrived) sum += gradient;
  const double needed = averages ? sum / n_ranks : sum;

  EventStream stream(n_ranks);
  bool right = true;
  bool weighted = true;
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
    const int own = arrived[static_cast<std::size_t>(rank)];
    const double passed = answers ? needed : own;
    // A factor in the loss may also be a weight that the loss is to have.
    const double made_up = scaled ? passed * n_ranks : passed;
    weighted = weighted && passed == needed;
    right = right && made_up == needed;
    stream.at(rank).wrapper = 0;
    stream.add(rank, WrapEvent{.n_ranks = n_ranks});
    stream.add(rank,
               ExchangeEvent{.call = CollectiveOp::kAllReduce,
                             .reduce = averages ? ReduceOp::kAvg : ReduceOp::kSum,
                             .n_ranks = n_ranks,
                             .called_at = stream.name("loss.py:7"),
                             .join = ExchangeJoin::kInPlace,
                             .answered = answers,
                             .scaled = scaled,
                             .digest = static_cast<std::uint64_t>(own)});
  }
  const LawResult result = check("single-process-equal", stream);
  RC_ASSERT((result.verdict == Verdict::kHolds) == (right || weighted));
}

}  // namespace
}  // namespace lockstep
