#include "lockstep/sim/fault/virtual_disk.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/random/generator.h"

namespace lockstep::sim {

namespace {

Error missing(std::string_view path) { return {"no such file", std::string(path)}; }

}  // namespace

Result<std::string> VirtualDisk::read(std::string_view path) {
  const auto found = names_.find(path);
  if (found == names_.end()) return missing(path);
  return found->second->bytes;
}

Outcome VirtualDisk::write(std::string_view path, std::string_view bytes) {
  auto found = names_.find(path);
  if (found == names_.end()) {
    if (Outcome place = folders_.check(path); !place.ok()) return place;
    const auto file = std::make_shared<File>();
    found = names_.emplace(std::string(path), file).first;
    changes_.push_back({std::string(folder_of(path)), {}, std::string(path), file});
  }
  File& file = *found->second;
  file.bytes.clear();
  file.synced = false;
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(capacity_ - n_bytes(), 0));
  file.bytes.assign(bytes.substr(0, room));
  if (bytes.size() > room) return Error{"no space left on device", std::string(path)};
  return success();
}

Outcome VirtualDisk::sync(std::string_view path) {
  const auto found = names_.find(path);
  if (found != names_.end()) {
    found->second->durable = found->second->bytes;
    found->second->synced = true;
    return success();
  }
  std::vector<Change> open;
  for (Change& change : changes_) {
    if (change.folder == path) {
      apply(change, durable_names_);
    } else {
      open.push_back(std::move(change));
    }
  }
  changes_ = std::move(open);
  return success();
}

Outcome VirtualDisk::rename(std::string_view from, std::string_view to) {
  const auto found = names_.find(from);
  if (found == names_.end()) return missing(from);
  if (Outcome place = folders_.check(to); !place.ok()) return place;
  Change change{std::string(folder_of(to)), std::string(from), std::string(to), found->second};
  apply(change, names_);
  changes_.push_back(std::move(change));
  return success();
}

Outcome VirtualDisk::remove(std::string_view path) {
  if (!names_.contains(path)) return missing(path);
  Change change{std::string(folder_of(path)), std::string(path), {}, nullptr};
  apply(change, names_);
  changes_.push_back(std::move(change));
  return success();
}

Result<std::vector<std::string>> VirtualDisk::list(std::string_view folder) {
  std::vector<std::string> names;
  for (const auto& [path, file] : names_) {
    if (folder_of(path) == folder) names.push_back(path.substr(path.rfind('/') + 1));
  }
  return names;
}

Outcome VirtualDisk::make_folder(std::string_view folder) {
  folders_.make(folder);
  return success();
}

std::int64_t VirtualDisk::n_bytes() const {
  std::int64_t n = 0;
  for (const auto& [path, file] : names_) n += std::ssize(file->bytes);
  return n;
}

void VirtualDisk::apply(const Change& change, Names& names) {
  if (!change.removed.empty()) names.erase(change.removed);
  if (!change.added.empty()) names[change.added] = change.file;
}

// One pass over what was not synced, a branch a fate.
// NOLINTNEXTLINE(readability-function-cognitive-complexity)
void VirtualDisk::crash(CrashFate fate, std::uint64_t seed) {
  if (fate == CrashFate::kKept) return;
  Generator coin(seed);
  for (const Change& change : changes_) {
    const bool made_it =
        fate == CrashFate::kTorn || (fate == CrashFate::kReordered && (coin.random() & 1U) != 0);
    if (made_it) apply(change, durable_names_);
  }
  changes_.clear();
  names_ = durable_names_;
  for (const auto& [path, file] : names_) {
    if (!file->synced) {
      const std::uint32_t draw = fate == CrashFate::kReordered ? coin.random() % 3 : 0;
      const bool torn = fate == CrashFate::kTorn || draw == 1;
      if (torn) file->durable = file->bytes.substr(0, file->bytes.size() / 2);
      if (draw == 2) file->durable = file->bytes;
    }
    file->bytes = file->durable;
    file->synced = true;
  }
}

}  // namespace lockstep::sim
