// Files in a map, and files that cannot be written: bases for the doubles of tests.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/host.h"

namespace lockstep::testing {

/// Durable at once; folders are but parts of names.
class MapFiles : public FileSystem {
 public:
  using Map = std::map<std::string, std::string, std::less<>>;

  MapFiles() = default;

  explicit MapFiles(Map files) : files_(std::move(files)) {}

  Result<std::string> read(std::string_view path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return missing(path);
    return found->second;
  }

  Outcome write(std::string_view path, std::string_view bytes) override {
    files_.insert_or_assign(std::string(path), std::string(bytes));
    return success();
  }

  Outcome sync(std::string_view) override { return success(); }

  Outcome rename(std::string_view from, std::string_view to) override {
    const auto found = files_.find(from);
    if (found == files_.end()) return missing(from);
    files_.insert_or_assign(std::string(to), std::string(found->second));
    files_.erase(files_.find(from));
    return success();
  }

  Outcome remove(std::string_view path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return missing(path);
    files_.erase(found);
    return success();
  }

  Result<std::vector<std::string>> list(std::string_view folder) override {
    std::vector<std::string> names;
    for (const auto& [path, bytes] : files_) {
      if (folder_of(path) == folder) names.push_back(path.substr(path.rfind('/') + 1));
    }
    return names;
  }

  Outcome make_folder(std::string_view) override { return success(); }

  Map& map() { return files_; }

 private:
  static Error missing(std::string_view path) { return {"no such file", std::string(path)}; }

  Map files_;
};

/// What cannot be written. Reading is left to the derived class.
class ReadOnlyFiles : public FileSystem {
 public:
  Outcome write(std::string_view path, std::string_view) override { return refuse(path); }

  Outcome sync(std::string_view path) override { return refuse(path); }

  Outcome rename(std::string_view, std::string_view to) override { return refuse(to); }

  Outcome remove(std::string_view path) override { return refuse(path); }

  Result<std::vector<std::string>> list(std::string_view folder) override {
    return Error{"cannot be listed", std::string(folder)};
  }

  Outcome make_folder(std::string_view folder) override { return refuse(folder); }

 private:
  static Error refuse(std::string_view path) { return {"read-only", std::string(path)}; }
};

}  // namespace lockstep::testing
