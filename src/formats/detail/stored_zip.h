// Zip archives whose members are stored as they are: what torch.save writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::detail {

/// A file in the archive. The text points into the archive's bytes.
struct ZipMember {
  std::string name;
  std::string_view data;
};

/// Whether these bytes begin as an archive with members does.
bool is_zip(std::string_view bytes);

/// The members in the order of the archive's directory. Archives of more than 4 GiB (zip64) included.
///
/// Errors: no archive, or one that is cut off; compressed or encrypted members; members that overlap;
///     a checksum that does not fit.
/// Source: APPNOTE.TXT 6.3.10, PKWARE.
Result<std::vector<ZipMember>> read_stored_zip(std::string_view bytes);

/// Puts an archive together.
class StoredZip {
 public:
  /// From `long_from` bytes on, sizes and places are written with 64 bits; tests lower it.
  explicit StoredZip(std::uint64_t long_from = 0xFFFFFFFFU) : long_from_(long_from) {}

  /// Adds a file whose data begins at a multiple of 64 bytes, as PyTorch maps them.
  /// Requires: a name that is new.
  void add(const std::string& name, std::string_view data);
  /// The whole archive. Called once.
  std::string finish();

 private:
  struct Place {
    std::string name;
    std::uint32_t checksum = 0;
    std::uint64_t size = 0;
    std::uint64_t at = 0;
  };

  void append_entry(const Place& place);

  std::uint64_t long_from_;
  std::string bytes_;
  std::vector<Place> places_;
};

}  // namespace lockstep::detail
