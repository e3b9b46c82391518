#include "lockstep/collectives/object_collectives.h"

#include <algorithm>
#include <span>

namespace lockstep {

void broadcast_object_list(ProcessGroup& group,
                           std::vector<std::string>& objects,
                           std::int32_t root,
                           const OpOptions& options) {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> bytes;
  for (const std::string& object : objects) {
    sizes.push_back(static_cast<std::int64_t>(object.size()));
    if (group.rank() == root) bytes.insert(bytes.end(), object.begin(), object.end());
  }
  group.broadcast(Memory::of(std::span(sizes)), root, options).wait_or_throw();
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) total += size;
  bytes.resize(static_cast<std::size_t>(total));
  group.broadcast(Memory::of(std::span(bytes)), root, options).wait_or_throw();
  auto at = bytes.begin();
  for (std::size_t i = 0; i < objects.size(); ++i) {
    objects[i].assign(at, at + sizes[i]);
    at += sizes[i];
  }
}

std::vector<std::string> all_gather_object(ProcessGroup& group,
                                           const std::string& object,
                                           const OpOptions& options) {
  const auto n = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> sizes(n);
  std::vector<std::int64_t> size = {static_cast<std::int64_t>(object.size())};
  group.all_gather_into_tensor(Memory::of(std::span(sizes)), Memory::of(std::span(size)), options)
      .wait_or_throw();
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<std::uint8_t> mine(object.begin(), object.end());
  mine.resize(longest);
  std::vector<std::uint8_t> all(longest * n);
  group.all_gather_into_tensor(Memory::of(std::span(all)), Memory::of(std::span(mine)), options)
      .wait_or_throw();
  std::vector<std::string> objects(n);
  for (std::size_t r = 0; r < n; ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * longest);
    objects[r].assign(begin, begin + sizes[r]);
  }
  return objects;
}

}  // namespace lockstep
