// The world of a real process: its clock, its disk, its environment.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/host.h"

namespace lockstep {

/// Host of a rank that is its own process.
///
/// Scheduling points do nothing, compute costs what it costs; logged lines go to the standard error
/// stream with the rank in front.
class RealHost final : public Host {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  /// `said`: what the environment has beside the process's own variables.
  /// Requires: `files` outlives the host.
  RealHost(Rank rank, FileSystem& files, Variables said = {});

  VirtualTime now() const override;
  void sleep(Duration span) override;

  void point(const Point& /*next*/) override {}

  void spend(Duration /*compute*/) override {}

  FileSystem& files() override { return *files_; }

  Memo& memo() override { return memo_; }

  std::optional<std::string> environment(std::string_view name) const override;
  void log(std::string_view line) override;

 private:
  class ProcessMemo final : public Memo {
   public:
    std::shared_ptr<const void> get(
        std::string_view key, const std::function<std::shared_ptr<const void>()>& make) override;

   private:
    std::map<std::string, std::shared_ptr<const void>, std::less<>> values_;
  };

  Rank rank_;
  FileSystem* files_;
  Variables said_;
  ProcessMemo memo_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep
