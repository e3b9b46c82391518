#include "lockstep/formats/detail/stored_zip.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace lockstep::detail {

namespace {

constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kCentral = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kMostComment = 0xFFFF;
constexpr std::uint32_t kLong = 0xFFFFFFFF;  // "See the extra field".
constexpr std::uint16_t kShort = 0xFFFF;
constexpr std::uint16_t kExtra64 = 1;
constexpr std::uint16_t kPadding = 0x4246;  // PyTorch's own extra field: "FB".
constexpr std::size_t kAlignment = 64;

constexpr std::array<std::uint32_t, 256> kChecksums = [] {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
    table[i] = value;
  }
  return table;
}();

std::uint32_t checksum_of(std::string_view data) {
  std::uint32_t value = 0xFFFFFFFF;
  for (const char byte : data) {
    value = (value >> 8U) ^ kChecksums[(value ^ static_cast<unsigned char>(byte)) & 0xFFU];
  }
  return ~value;
}

/// Little endian; 0 where there are too few bytes.
std::uint64_t number_at(std::string_view bytes, std::uint64_t at, std::size_t n) {
  if (at > bytes.size() || bytes.size() - at < n) return 0;
  std::uint64_t value = 0;
  for (std::size_t i = n; i-- > 0;) {
    value = (value << 8U) | static_cast<unsigned char>(bytes[static_cast<std::size_t>(at) + i]);
  }
  return value;
}

/// Little endian. Requires: n <= 8.
void append(std::string& to, std::uint64_t value, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to.push_back(static_cast<char>((value >> (8 * i)) & 0xFFU));
}

/// Where the directory stands and how many members it names.
struct Directory {
  std::uint64_t n = 0;
  std::uint64_t at = 0;
  std::uint64_t end = 0;
};

std::optional<Directory> find_directory(std::string_view bytes) {
  if (bytes.size() < kEndBytes) return std::nullopt;
  const std::size_t last = bytes.size() - kEndBytes;
  const std::size_t first = last > kMostComment ? last - kMostComment : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    if (number_at(bytes, at, 4) != kEnd) continue;
    Directory found{number_at(bytes, at + 10, 2), number_at(bytes, at + 16, 4), at};
    const std::size_t locator = at - std::min(at, kLocator64Bytes);
    if (number_at(bytes, locator, 4) == kLocator64) {
      const std::uint64_t end64 = number_at(bytes, locator + 8, 8);
      if (number_at(bytes, end64, 4) != kEnd64) return std::nullopt;
      found = {number_at(bytes, end64 + 32, 8), number_at(bytes, end64 + 48, 8), end64};
    }
    return found;
  }
  return std::nullopt;
}

/// One entry of the directory.
struct Entry {
  std::string name;
  std::uint64_t flags = 0;
  std::uint64_t method = 0;
  std::uint64_t checksum = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t at = 0;
  std::uint64_t next = 0;  // Where the next entry begins.
};

/// Sizes and places that do not fit 32 bits stand in the extra field, in this order.
void read_extra(std::string_view bytes, std::uint64_t at, std::uint64_t end, Entry& entry) {
  while (at + 4 <= end) {
    const std::uint64_t size = number_at(bytes, at + 2, 2);
    std::uint64_t value = at + 4;
    if (number_at(bytes, at, 2) == kExtra64) {
      for (std::uint64_t* field : {&entry.size, &entry.packed, &entry.at}) {
        if (*field != kLong || value + 8 > std::min(end, at + 4 + size)) continue;
        *field = number_at(bytes, value, 8);
        value += 8;
      }
    }
    at += 4 + size;
  }
}

std::optional<Entry> entry_at(std::string_view bytes, std::uint64_t at, std::uint64_t end) {
  if (at > end || end - at < kCentralBytes || number_at(bytes, at, 4) != kCentral) {
    return std::nullopt;
  }
  Entry entry;
  entry.flags = number_at(bytes, at + 8, 2);
  entry.method = number_at(bytes, at + 10, 2);
  entry.checksum = number_at(bytes, at + 16, 4);
  entry.packed = number_at(bytes, at + 20, 4);
  entry.size = number_at(bytes, at + 24, 4);
  entry.at = number_at(bytes, at + 42, 4);
  const std::uint64_t name = at + kCentralBytes;
  const std::uint64_t extra = name + number_at(bytes, at + 28, 2);
  const std::uint64_t comment = extra + number_at(bytes, at + 30, 2);
  entry.next = comment + number_at(bytes, at + 32, 2);
  if (entry.next > end) return std::nullopt;
  entry.name = bytes.substr(static_cast<std::size_t>(name), static_cast<std::size_t>(extra - name));
  read_extra(bytes, extra, comment, entry);
  return entry;
}

Error about(const Entry& entry, const std::string& what) {
  return Error{"the archive's member '" + entry.name + "' " + what, {}};
}

/// Where an entry's data begins, or nothing.
std::optional<std::uint64_t> data_of(std::string_view bytes, const Entry& entry) {
  const bool fits = entry.at < bytes.size() && bytes.size() - entry.at >= kLocalBytes;
  if (!fits || number_at(bytes, entry.at, 4) != kLocal) return std::nullopt;
  const std::uint64_t begin = entry.at + kLocalBytes + number_at(bytes, entry.at + 26, 2) +
                              number_at(bytes, entry.at + 28, 2);
  if (begin > bytes.size() || bytes.size() - begin < entry.size) return std::nullopt;
  return begin;
}

}  // namespace

bool is_zip(std::string_view bytes) { return number_at(bytes, 0, 4) == kLocal; }

Result<std::vector<ZipMember>> read_stored_zip(std::string_view bytes) {
  const std::optional<Directory> directory = find_directory(bytes);
  if (!directory) return Error{"no zip archive, or one that is cut off", {}};
  std::vector<ZipMember> members;
  std::uint64_t at = directory->at;
  std::uint64_t n_left = bytes.size();
  for (std::uint64_t i = 0; i < directory->n; ++i) {
    const std::optional<Entry> entry = entry_at(bytes, at, directory->end);
    if (!entry) return Error{"the archive's directory is damaged", {}};
    at = entry->next;
    if ((entry->flags & 1U) != 0) return about(*entry, "is encrypted");
    if (entry->method != 0) return about(*entry, "is compressed; torch.save stores members");
    const std::optional<std::uint64_t> begin = data_of(bytes, *entry);
    if (!begin || entry->packed != entry->size) return about(*entry, "is cut off");
    // Members that overlap would make little of a file look like much.
    if (entry->size > n_left) return about(*entry, "overlaps others");
    n_left -= entry->size;
    const std::string_view data =
        bytes.substr(static_cast<std::size_t>(*begin), static_cast<std::size_t>(entry->size));
    if (checksum_of(data) != entry->checksum)
      return about(*entry, "is damaged: its checksum differs");
    members.push_back({entry->name, data});
  }
  return members;
}

void StoredZip::add(const std::string& name, std::string_view data) {
  const Place place{name, checksum_of(data), data.size(), bytes_.size()};
  const bool is_long = place.size >= long_from_;
  const std::size_t n_long = is_long ? 20 : 0;
  // The padding is an extra field too, whose own head takes four bytes.
  const std::size_t before = bytes_.size() + kLocalBytes + name.size() + n_long + 4;
  const std::size_t n_padding = (kAlignment - before % kAlignment) % kAlignment;
  append(bytes_, kLocal, 4);
  append(bytes_, is_long ? 45 : 20, 2);  // The version that it takes to read this.
  append(bytes_, 0x800, 2);              // Names are UTF-8.
  append(bytes_, 0, 6);                  // Stored; no time and date.
  append(bytes_, place.checksum, 4);
  append(bytes_, is_long ? kLong : place.size, 4);
  append(bytes_, is_long ? kLong : place.size, 4);
  append(bytes_, name.size(), 2);
  append(bytes_, n_long + 4 + n_padding, 2);
  bytes_ += name;
  if (is_long) {
    append(bytes_, kExtra64, 2);
    append(bytes_, 16, 2);
    append(bytes_, place.size, 8);
    append(bytes_, place.size, 8);
  }
  append(bytes_, kPadding, 2);
  append(bytes_, n_padding, 2);
  bytes_.append(n_padding, 'Z');
  bytes_ += data;
  places_.push_back(place);
}

void StoredZip::append_entry(const Place& place) {
  const bool is_long = place.size >= long_from_ || place.at >= long_from_;
  const std::uint64_t version = is_long ? 45 : 20;
  append(bytes_, kCentral, 4);
  append(bytes_, version, 2);
  append(bytes_, version, 2);
  append(bytes_, 0x800, 2);
  append(bytes_, 0, 6);
  append(bytes_, place.checksum, 4);
  append(bytes_, is_long ? kLong : place.size, 4);
  append(bytes_, is_long ? kLong : place.size, 4);
  append(bytes_, place.name.size(), 2);
  append(bytes_, is_long ? 28 : 0, 2);
  bytes_.append(2 + 2 + 2 + 4, '\0');  // No comment; first disk; attributes.
  append(bytes_, is_long ? kLong : place.at, 4);
  bytes_ += place.name;
  if (!is_long) return;
  append(bytes_, kExtra64, 2);
  append(bytes_, 24, 2);
  append(bytes_, place.size, 8);
  append(bytes_, place.size, 8);
  append(bytes_, place.at, 8);
}

std::string StoredZip::finish() {
  const std::uint64_t at = bytes_.size();
  for (const Place& place : places_) append_entry(place);
  const std::uint64_t end = bytes_.size();
  const bool is_long = at >= long_from_ || places_.size() >= kShort;
  if (is_long) {
    append(bytes_, kEnd64, 4);
    append(bytes_, kEnd64Bytes - 12, 8);
    append(bytes_, 45, 2);
    append(bytes_, 45, 2);
    append(bytes_, 0, 8);  // Disks.
    append(bytes_, places_.size(), 8);
    append(bytes_, places_.size(), 8);
    append(bytes_, end - at, 8);
    append(bytes_, at, 8);
    append(bytes_, kLocator64, 4);
    append(bytes_, 0, 4);
    append(bytes_, end, 8);
    append(bytes_, 1, 4);
  }
  append(bytes_, kEnd, 4);
  append(bytes_, 0, 4);
  append(bytes_, is_long ? kShort : places_.size(), 2);
  append(bytes_, is_long ? kShort : places_.size(), 2);
  append(bytes_, is_long ? kLong : end - at, 4);
  append(bytes_, is_long ? kLong : at, 4);
  append(bytes_, 0, 2);
  return std::move(bytes_);
}

}  // namespace lockstep::detail
