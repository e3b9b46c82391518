// A single process next to the simulated world: a runtime and a loopback group without fibers, in
// which relation laws run the same job or its pieces once more.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/disk_files.h"
#include "lockstep/comm/loopback_group.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/kernels/exact_observer.h"
#include "lockstep/train/job.h"

namespace lockstep {

/// Nothing happens concurrently: time stands still, scheduling points do nothing.
class LoneHost final : public Host {
 public:
  VirtualTime now() const override { return {}; }

  void sleep(Duration /*span*/) override {}

  void point(const Point& /*next*/) override {}

  void spend(Duration /*compute*/) override {}

  FileSystem& files() override { return files_; }

  Memo& memo() override { return memo_; }

  std::optional<std::string> environment(std::string_view /*name*/) const override {
    return std::nullopt;
  }

  void log(std::string_view /*line*/) override {}

 private:
  class MapMemo final : public Memo {
   public:
    std::shared_ptr<const void> get(
        std::string_view key, const std::function<std::shared_ptr<const void>()>& make) override;

   private:
    std::map<std::string, std::shared_ptr<const void>, std::less<>> values_;
  };

  DiskFiles files_;
  MapMemo memo_;
};

/// Requires: everything made with its runtime dies before it.
class Companion {
 public:
  /// `exact`: kernels that prove that nothing rounds.
  explicit Companion(bool exact);

  Runtime& runtime() { return runtime_; }

  ProcessGroup& group() { return *group_; }

  Host& host() { return host_; }

 private:
  LoneHost host_;
  Pool pool_;
  std::unique_ptr<Kernels> cpu_;
  ExactObserver exact_;
  Runtime runtime_;
  std::unique_ptr<ProcessGroup> group_;
};

struct TensorInfo {
  std::string name;  ///< Qualified.
  std::int64_t n_elems = 0;
  DType dtype = DType::kF32;
};

/// The model's parameters and buffers, in order of registration.
std::vector<TensorInfo> tensors_of(const ModelSpec& spec);
/// Elements of all its parameters.
std::int64_t n_parameters(const ModelSpec& spec);

}  // namespace lockstep
