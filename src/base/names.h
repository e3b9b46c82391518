// Interned names: events carry 32-bit ids, files carry the text.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  NameId intern(std::string_view text);

  std::string_view text(NameId id) const { return texts_[static_cast<std::size_t>(id)]; }

  /// A list of names, in order: the tensors of one event, or the samples' fields.
  LayoutId intern_layout(std::span<const NameId> names);

  std::span<const NameId> layout(LayoutId id) const {
    return layouts_[static_cast<std::size_t>(id)];
  }

  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // Stable addresses: ids_ keys view them.
  std::map<std::string_view, NameId> ids_;
  std::deque<std::vector<NameId>> layouts_;
  std::map<std::vector<NameId>, LayoutId> layout_ids_;
};

}  // namespace lockstep
