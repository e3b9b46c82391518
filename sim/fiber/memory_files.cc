#include "lockstep/sim/fiber/memory_files.h"

#include <utility>

namespace lockstep::sim {

Result<std::string> MemoryFiles::read(std::string_view path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return Error{"no such file", std::string(path)};
  return found->second;
}

Outcome MemoryFiles::write(std::string_view path, std::string_view bytes) {
  if (Outcome place = folders_.check(path); !place.ok()) return place;
  files_.insert_or_assign(std::string(path), std::string(bytes));
  return success();
}

Outcome MemoryFiles::sync(std::string_view /*path*/) { return success(); }

Outcome MemoryFiles::rename(std::string_view from, std::string_view to) {
  const auto found = files_.find(from);
  if (found == files_.end()) return Error{"no such file", std::string(from)};
  if (Outcome place = folders_.check(to); !place.ok()) return place;
  std::string bytes = std::move(found->second);
  files_.erase(found);
  files_.insert_or_assign(std::string(to), std::move(bytes));
  return success();
}

Outcome MemoryFiles::remove(std::string_view path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return Error{"no such file", std::string(path)};
  files_.erase(found);
  return success();
}

Result<std::vector<std::string>> MemoryFiles::list(std::string_view folder) {
  std::vector<std::string> names;
  for (const auto& [path, bytes] : files_) {
    if (folder_of(path) == folder) names.push_back(path.substr(path.rfind('/') + 1));
  }
  return names;
}

Outcome MemoryFiles::make_folder(std::string_view folder) {
  folders_.make(folder);
  return success();
}

std::shared_ptr<const void> MemoryMemo::get(
    std::string_view key, const std::function<std::shared_ptr<const void>()>& make) {
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  // `make` may ask for other keys, so the entry goes in afterwards.
  std::shared_ptr<const void> value = make();
  values_.insert_or_assign(std::string(key), value);
  return value;
}

}  // namespace lockstep::sim
