// Files and shared values that live as long as a simulated run, or longer when the caller keeps
// them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/host.h"
#include "lockstep/sim/fiber/folders.h"

namespace lockstep::sim {

/// A file system in memory, shared by all ranks of a world. Keep one outside the world to find in
/// the next run (a restart) what the last one published. Everything is durable at once.
class MemoryFiles final : public FileSystem {
 public:
  Result<std::string> read(std::string_view path) override;
  Outcome write(std::string_view path, std::string_view bytes) override;
  Outcome sync(std::string_view path) override;
  Outcome rename(std::string_view from, std::string_view to) override;
  Outcome remove(std::string_view path) override;
  Result<std::vector<std::string>> list(std::string_view folder) override;
  Outcome make_folder(std::string_view folder) override;

  const std::map<std::string, std::string, std::less<>>& files() const { return files_; }

  void clear() {
    files_.clear();
    folders_.clear();
  }

 private:
  std::map<std::string, std::string, std::less<>> files_;
  Folders folders_;
};

/// Values by key, made on first use.
class MemoryMemo final : public Memo {
 public:
  std::shared_ptr<const void> get(
      std::string_view key, const std::function<std::shared_ptr<const void>()>& make) override;

  void clear() { values_.clear(); }

 private:
  std::map<std::string, std::shared_ptr<const void>, std::less<>> values_;
};

}  // namespace lockstep::sim
