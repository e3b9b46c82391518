#include "lockstep/sim/fiber/memory_files.h"

namespace lockstep::sim {

Result<std::string> MemoryFiles::read(std::string_view path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return Error{"no such file", std::string(path)};
  return found->second;
}

Outcome MemoryFiles::publish(std::string_view path, std::string_view bytes) {
  files_.insert_or_assign(std::string(path), std::string(bytes));
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
