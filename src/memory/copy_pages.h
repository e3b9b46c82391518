// Memory for many small copies that all end at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep {

/// Memory for copies that live until the next reset; a warm one allocates nothing.
class CopyPages {
 public:
  /// Aligned to 16 bytes.
  void* allocate(std::size_t n_bytes) {
    const std::size_t rounded = (n_bytes + 15) / 16 * 16;
    while (page_ < pages_.size() && used_ + rounded > pages_[page_].size) {
      ++page_;
      used_ = 0;
    }
    if (page_ == pages_.size()) add_page(rounded);
    void* const block = pages_[page_].bytes.get() + used_;
    used_ += rounded;
    return block;
  }

  void reset() {
    page_ = 0;
    used_ = 0;
  }

 private:
  struct Page {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };

  void add_page(std::size_t least) {
    constexpr std::size_t kFirstBytes = 1024;
    const std::size_t size = std::max(least, pages_.empty() ? kFirstBytes : 2 * pages_.back().size);
    pages_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
  }

  std::vector<Page> pages_;
  std::size_t page_ = 0;
  std::size_t used_ = 0;
};

}  // namespace lockstep
