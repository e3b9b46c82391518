#include "lockstep/sim/fiber/folders.h"

#include "lockstep/base/host.h"

namespace lockstep::sim {

namespace {

// "./a/b/" and "a/b" are one folder.
std::string_view plain(std::string_view folder) {
  while (folder.size() > 2 && folder.starts_with("./")) folder.remove_prefix(2);
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  return folder;
}

bool is_root(std::string_view folder) {
  return folder.empty() || (folder.size() == 1 && (folder[0] == '.' || folder[0] == '/'));
}

}  // namespace

void Folders::make(std::string_view folder) {
  for (folder = plain(folder); !is_root(folder); folder = plain(folder_of(folder))) {
    made_.emplace(folder);
  }
}

bool Folders::has(std::string_view folder) const {
  folder = plain(folder);
  return is_root(folder) || made_.contains(folder);
}

Outcome Folders::check(std::string_view path) const {
  if (has(folder_of(path))) return success();
  return Error{"no such folder '" + std::string(folder_of(path)) + "'", std::string(path)};
}

}  // namespace lockstep::sim
