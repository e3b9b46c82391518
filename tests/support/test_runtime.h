// A Runtime for tests of one rank: its own pool, CPU kernels, and a host whose time stands still
// unless slept, whose files are a map and whose log is a vector.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/host.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/kernels/exact_observer.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/tensor/tensor.h"

#include "tests/support/map_files.h"

namespace lockstep::testing {

class MapMemo final : public Memo {
 public:
  std::shared_ptr<const void> get(
      std::string_view key, const std::function<std::shared_ptr<const void>()>& make) override {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    return values_.emplace(key, make()).first->second;
  }

 private:
  std::map<std::string, std::shared_ptr<const void>, std::less<>> values_;
};

class TestHost final : public Host {
 public:
  VirtualTime now() const override { return now_; }

  void sleep(Duration span) override { now_ = now_ + span; }

  void point(const Point& next) override { points.push_back(next); }

  void spend(Duration compute) override { now_ = now_ + compute; }

  FileSystem& files() override { return files_; }

  Memo& memo() override { return memo_; }

  std::optional<std::string> environment(std::string_view name) const override {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  }

  void log(std::string_view line) override { lines.emplace_back(line); }

  std::map<std::string, std::string, std::less<>> variables;
  std::vector<std::string> lines;
  std::vector<Point> points;

 private:
  VirtualTime now_;
  MapFiles files_;
  MapMemo memo_;
};

/// Usage: `TestRuntime test; Tensor::zeros(test.runtime, {2}, DType::kF32)`.
struct TestRuntime {
  Pool pool;
  std::unique_ptr<Kernels> kernels = make_cpu_kernels();
  TestHost host;
  Runtime runtime{pool, *kernels, host};
};

/// As TestRuntime, but any operation that rounds throws InexactOperation.
struct ExactTestRuntime {
  ExactTestRuntime() { kernels->observe(&exact); }

  Pool pool;
  ExactObserver exact;
  std::unique_ptr<Kernels> kernels = make_cpu_kernels();
  TestHost host;
  Runtime runtime{pool, *kernels, host};
};

/// A tensor's values, widened.
inline std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) values.push_back(tensor.at(i));
  return values;
}

}  // namespace lockstep::testing
