#include "lockstep/base/names.h"

#include <algorithm>
#include <functional>

namespace lockstep {

namespace {

std::span<const NameId> copy_of(std::span<const NameId> list, CopyPages& pages) {
  if (list.empty()) return {};
  auto* const copy = static_cast<NameId*>(pages.allocate(list.size_bytes()));
  std::copy(list.begin(), list.end(), copy);
  return {copy, list.size()};
}

// Call sites keep a text as a pointer to its first letter.
std::string_view copy_with_end(std::string_view text, CopyPages& pages) {
  auto* const copy = static_cast<char*>(pages.allocate(text.size() + 1));
  *std::copy(text.begin(), text.end(), copy) = '\0';
  return {copy, text.size()};
}

/// FNV-1a, which is the same everywhere.
std::size_t hash_of(std::string_view bytes) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  return static_cast<std::size_t>(hash);
}

std::string_view bytes_of(std::span<const NameId> names) {
  return {reinterpret_cast<const char*>(names.data()), names.size_bytes()};
}

}  // namespace

template <typename IsSame>
std::uint32_t NameTable::Index::find_or_add(std::size_t hash, std::uint32_t fresh, IsSame is_same) {
  if ((n_taken_ + 1) * 2 > places_.size()) grow();
  std::size_t i = hash & (places_.size() - 1);
  for (; places_[i].number != kFree; i = (i + 1) & (places_.size() - 1)) {
    if (places_[i].hash == hash && is_same(places_[i].number)) return places_[i].number;
  }
  places_[i] = {hash, fresh};
  ++n_taken_;
  return fresh;
}

void NameTable::Index::clear() {
  std::fill(places_.begin(), places_.end(), Place{});
  n_taken_ = 0;
}

void NameTable::Index::grow() {
  constexpr std::size_t kFewest = 64;
  std::vector<Place> larger(std::max(kFewest, places_.size() * 2));
  for (const Place& place : places_) {
    if (place.number == kFree) continue;
    std::size_t i = place.hash & (larger.size() - 1);
    while (larger[i].number != kFree) i = (i + 1) & (larger.size() - 1);
    larger[i] = place;
  }
  places_.swap(larger);
}

NameTable::NameTable() { clear(); }

void NameTable::clear() {
  pages_.reset();
  texts_.clear();
  layouts_.clear();
  ids_.clear();
  layout_ids_.clear();
  intern("");
  intern_layout({});
}

NameId NameTable::intern(std::string_view text) {
  const auto fresh = static_cast<std::uint32_t>(texts_.size());
  const std::uint32_t number = ids_.find_or_add(
      hash_of(text), fresh, [&](std::uint32_t known) { return texts_[known] == text; });
  if (number == fresh) texts_.push_back(copy_with_end(text, pages_));
  return static_cast<NameId>(number);
}

LayoutId NameTable::intern_layout(std::span<const NameId> names) {
  const auto fresh = static_cast<std::uint32_t>(layouts_.size());
  const std::uint32_t number =
      layout_ids_.find_or_add(hash_of(bytes_of(names)), fresh, [&](std::uint32_t known) {
        return std::equal(
            names.begin(), names.end(), layouts_[known].begin(), layouts_[known].end());
      });
  if (number == fresh) layouts_.push_back(copy_of(names, pages_));
  return static_cast<LayoutId>(number);
}

}  // namespace lockstep
