// One rank on a loopback group: enough to run whole jobs.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/loopback_group.h"
#include "lockstep/comm/rank_context.h"

#include "tests/support/test_runtime.h"

namespace lockstep::testing {

/// `OneRank one; run_job(job, one.context(), {})`.
class OneRank {
 public:
  RankContext& context() { return context_; }

  Runtime& runtime() { return test_.runtime; }

  TestHost& host() { return test_.host; }

  /// The same runtime under another number: what rank `rank` of `world_size` would plan.
  RankContext as(std::int32_t rank, std::int32_t world_size) {
    return {Rank{rank}, world_size, test_.runtime, *group_};
  }

 private:
  TestRuntime test_;
  std::unique_ptr<ProcessGroup> group_ = make_loopback_group(test_.runtime);
  RankContext context_{Rank{0}, 1, test_.runtime, *group_};
};

/// Rows x -> y of one column each, with token counts.
inline std::shared_ptr<const data::Dataset> column_data(std::vector<double> x,
                                                        std::vector<double> y,
                                                        std::vector<std::int64_t> tokens = {}) {
  const auto size = static_cast<std::int64_t>(x.size());
  Result<data::Dataset> made = data::Dataset::make({.name = "rows",
                                                    .size = size,
                                                    .feature_columns = 1,
                                                    .features = std::move(x),
                                                    .target_columns = 1,
                                                    .targets = std::move(y),
                                                    .labels = {},
                                                    .tokens = std::move(tokens)});
  return std::make_shared<const data::Dataset>(std::move(made).value());
}

}  // namespace lockstep::testing
