// The pieces of a host that data needs: files in memory or in the source tree, and a memo that
// counts.
#pragma once

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "lockstep/base/host.h"

#include "tests/support/map_files.h"

namespace lockstep::data {

using MemoryFiles = testing::MapFiles;

/// Read-only files below the root of the repository.
class SourceFiles final : public testing::ReadOnlyFiles {
 public:
  Result<std::string> read(std::string_view path) override {
    std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/" + std::string(path),
                       std::ios::binary);
    if (!file) return Error{.message = "no such file", .where = std::string(path)};
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
};

class CountingMemo final : public Memo {
 public:
  std::shared_ptr<const void> get(
      std::string_view key, const std::function<std::shared_ptr<const void>()>& make) override {
    auto& value = values_[std::string(key)];
    if (!value) {
      value = make();
      ++made_;
    }
    return value;
  }

  int made() const { return made_; }

 private:
  std::map<std::string, std::shared_ptr<const void>> values_;
  int made_ = 0;
};

}  // namespace lockstep::data
