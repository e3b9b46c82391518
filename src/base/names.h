// Interned names: events carry 32-bit ids, files carry the text.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/memory/copy_pages.h"

namespace lockstep {

enum class NameId : std::uint32_t {};
enum class LayoutId : std::uint32_t {};
inline constexpr NameId kNoName{0};      ///< The empty name.
inline constexpr LayoutId kNoLayout{0};  ///< The empty list.

/// The names and name lists ("layouts") of one world or one trace, each stored once.
///
/// Deterministic: ids follow the order of first use; text, not id, is what traces and digests
///     contain.
class NameTable {
 public:
  NameTable();
  NameTable(const NameTable&) = delete;
  NameTable& operator=(const NameTable&) = delete;
  NameTable(NameTable&&) = delete;
  NameTable& operator=(NameTable&&) = delete;
  ~NameTable() = default;

  NameId intern(std::string_view text);

  /// Stays where it is until clear(), and ends with a zero byte.
  std::string_view text(NameId id) const { return texts_[static_cast<std::size_t>(id)]; }

  /// A list of names, in order: the tensors of one event, or the samples' fields.
  LayoutId intern_layout(std::span<const NameId> names);

  std::span<const NameId> layout(LayoutId id) const {
    return layouts_[static_cast<std::size_t>(id)];
  }

  std::size_t size() const { return texts_.size(); }

  /// Forgets all names and layouts, for another world or trace, which finds warm memory.
  void clear();

 private:
  /// Finds what has a number, by a hash of what it is.
  class Index {
   public:
    /// The number of what has this hash and is the same; none: `fresh`, and that is its number now.
    template <typename IsSame>
    std::uint32_t find_or_add(std::size_t hash, std::uint32_t fresh, IsSame is_same);
    void clear();

   private:
    struct Place {
      std::size_t hash = 0;
      std::uint32_t number = kFree;
    };

    static constexpr std::uint32_t kFree = 0xFFFFFFFFU;

    void grow();

    std::vector<Place> places_;  // A power of two of them, at most half of which are taken.
    std::size_t n_taken_ = 0;
  };

  CopyPages pages_;  // Where texts and lists are.
  std::vector<std::string_view> texts_;
  std::vector<std::span<const NameId>> layouts_;
  Index ids_;
  Index layout_ids_;
};

}  // namespace lockstep
