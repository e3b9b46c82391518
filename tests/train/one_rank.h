// One rank on a loopback group, with a host that shares values: enough to run whole jobs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lockstep/dist/loopback_group.h"
#include "lockstep/dist/rank_context.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::testing {

class MapMemo final : public Memo {
 public:
  std::shared_ptr<const void> get(
      std::string_view key, const std::function<std::shared_ptr<const void>()>& make) override {
    const auto known = values_.find(std::string(key));
    if (known != values_.end()) return known->second;
    auto value = make();
    values_.emplace(key, value);
    return value;
  }

 private:
  std::map<std::string, std::shared_ptr<const void>> values_;
};

class MemoHost final : public Host {
 public:
  VirtualTime now() const override { return {}; }
  void sleep(Duration /*span*/) override {}
  void point(const Point& /*next*/) override {}
  void spend(Duration /*compute*/) override {}
  FileSystem& files() override { throw ContractViolation("no files in this test"); }
  Memo& memo() override { return memo_; }
  std::optional<std::string> environment(std::string_view /*name*/) const override { return {}; }
  void log(std::string_view /*line*/) override {}

 private:
  MapMemo memo_;
};

/// `OneRank one; run_job(job, one.context(), {})`.
class OneRank {
 public:
  RankContext& context() { return context_; }
  Runtime& runtime() { return runtime_; }
  /// The same runtime under another number: what rank `rank` of `world_size` would plan.
  RankContext as(std::int32_t rank, std::int32_t world_size) {
    return {Rank{rank}, world_size, runtime_, *group_};
  }

 private:
  MemoHost host_;
  Pool pool_;
  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels();
  Runtime runtime_{pool_, *kernels_, host_};
  std::unique_ptr<ProcessGroup> group_ = make_loopback_group(runtime_);
  RankContext context_{Rank{0}, 1, runtime_, *group_};
};

/// Rows x -> y of one column each, with token counts.
inline std::shared_ptr<const data::Dataset> column_data(std::vector<double> x, std::vector<double> y,
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
