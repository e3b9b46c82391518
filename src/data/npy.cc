#include "lockstep/data/npy.h"

#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/base/host.h"
#include "lockstep/base/text.h"

namespace lockstep::data {
namespace {

constexpr double kExact = 9007199254740992.0;  // 2^53

struct Header {
  std::string type;
  bool fortran = false;
  std::vector<std::int64_t> shape;
};

// Walks the Python dictionary in the header: three known keys, quoted texts, booleans, one tuple.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  std::size_t place() const { return at_; }

  std::optional<Header> read() {
    Header header;
    unsigned seen = 0;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const std::optional<std::string> key = quoted();
      if (!key || !take(':')) return std::nullopt;
      const unsigned bit = read_value(*key, header);
      if (bit == 0 || (seen & bit) != 0) return std::nullopt;
      seen |= bit;
      if (!take(',') && !peek('}')) return std::nullopt;
    }
    skip_blanks();
    if (at_ != text_.size() || seen != 7U) return std::nullopt;
    return header;
  }

 private:
  // Returns the key's bit, or 0 when the key is unknown or its value unreadable.
  unsigned read_value(const std::string& key, Header& header) {
    if (key == "descr") {
      std::optional<std::string> type = quoted();
      header.type = type.value_or("");
      return type ? 1U : 0U;
    }
    if (key == "fortran_order") {
      header.fortran = word("True");
      return header.fortran || word("False") ? 2U : 0U;
    }
    return key == "shape" && read_shape(header.shape) ? 4U : 0U;
  }

  bool read_shape(std::vector<std::int64_t>& shape) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_blanks();
      const std::size_t first = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      const std::optional<std::int64_t> extent = parse_int(text_.substr(first, at_ - first));
      if (!extent) return false;
      shape.push_back(*extent);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::optional<std::string> quoted() {
    skip_blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string inside(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return inside;
  }

  bool word(std::string_view expected) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  bool peek(char expected) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == expected;
  }

  bool take(char expected) {
    if (!peek(expected)) return false;
    ++at_;
    return true;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Reads a little-endian value; this library runs on little-endian machines only (x86-64-v3).
template <typename T>
double value_at(const char* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

struct Type {
  std::string_view name;
  std::size_t size;
  double (*read)(const char*);
};

double whole_at(const char* bytes) {
  std::int64_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  constexpr auto kLast = static_cast<std::int64_t>(kExact);
  return value < -kLast || value > kLast ? std::nan("") : static_cast<double>(value);
}

constexpr Type kTypes[] = {{"<f4", 4, value_at<float>},
                           {"<f8", 8, value_at<double>},
                           {"<i4", 4, value_at<std::int32_t>},
                           {"<i8", 8, whole_at},
                           {"|u1", 1, value_at<std::uint8_t>}};

class NpyReader {
 public:
  NpyReader(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  Result<NpyArray> read() {
    Result<std::size_t> header_at = find_header();
    if (!header_at.ok()) return header_at.error();
    HeaderReader reader(bytes_.substr(header_at.value(), data_at_ - header_at.value()));
    const std::optional<Header> header = reader.read();
    if (!header) return at(header_at.value() + reader.place(), "the header is malformed here");
    return read_values(*header);
  }

 private:
  Error at(std::size_t byte, std::string message) const {
    return {.message = std::move(message), .where = file_ + ":byte " + std::to_string(byte)};
  }

  Error unread(std::string message) const {
    return {.message = std::move(message), .where = file_};
  }

  // Checks magic, version and header length; returns where the header starts.
  Result<std::size_t> find_header() {
    if (!bytes_.starts_with("\x93NUMPY")) return at(0, "not a NumPy file");
    if (bytes_.size() < 8) return at(bytes_.size(), "the file ends before its version");
    const char version = bytes_[6];
    if ((version != 1 && version != 2) || bytes_[7] != 0) {
      return at(6, "only the format versions 1.0 and 2.0 are read");
    }
    const std::size_t header_at = version == 1 ? 10 : 12;
    if (bytes_.size() < header_at) return at(bytes_.size(), "the file ends before its header");
    std::uint32_t length = 0;
    std::memcpy(&length, bytes_.data() + 8, header_at - 8);
    if (length > bytes_.size() - header_at) {
      return at(bytes_.size(), "the file ends within its header");
    }
    data_at_ = header_at + length;
    return header_at;
  }

  Result<NpyArray> read_values(const Header& header) const {
    const Type* type = nullptr;
    for (const Type& candidate : kTypes) {
      if (candidate.name == header.type) type = &candidate;
    }
    if (type == nullptr) {
      return unread("type '" + printable(header.type) +
                    "' is not read; save as <f4, <f8, <i4, <i8 or |u1");
    }
    if (header.fortran) return unread("Fortran order is not read; save a C-ordered array");
    if (header.shape.empty() || header.shape.size() > 2) {
      return unread(std::to_string(header.shape.size()) +
                    " dimensions are not read, only one or two");
    }
    return read_array(header, *type);
  }

  Result<NpyArray> read_array(const Header& header, const Type& type) const {
    const std::int64_t rows = header.shape[0];
    const std::int64_t columns = header.shape.size() == 2 ? header.shape[1] : 1;
    const std::size_t held = (bytes_.size() - data_at_) / type.size;
    // A product that would overflow is larger than any file.
    const bool huge = columns != 0 &&
                      static_cast<std::uint64_t>(rows) > held / static_cast<std::uint64_t>(columns);
    const std::size_t count =
        huge ? held + 1 : static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    if (count > held) return at(bytes_.size(), "the file ends before its last value");
    if (data_at_ + count * type.size != bytes_.size()) {
      return at(data_at_ + count * type.size, "bytes are left over after the last value");
    }
    NpyArray array{.type = header.type, .rows = rows, .columns = columns, .values = {}};
    array.values.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = data_at_ + i * type.size;
      array.values.push_back(type.read(bytes_.data() + place));
      if (!std::isfinite(array.values.back())) {
        return at(place, type.name[1] == 'i' ? "an integer beyond 2^53" : "a value is not finite");
      }
    }
    return array;
  }

  std::string_view bytes_;
  std::string file_;
  std::size_t data_at_ = 0;
};

Result<NpyArray> load(FileSystem& files, const std::string& path) {
  const Result<std::string> bytes = files.read(path);
  if (!bytes.ok()) return bytes.error();
  return parse_npy(bytes.value(), path);
}

// The rows of a file as whole numbers from 0.
Result<std::vector<std::int64_t>> load_counts(FileSystem& files, const std::string& path) {
  std::vector<std::int64_t> counts;
  if (path.empty()) return counts;
  const Result<NpyArray> array = load(files, path);
  if (!array.ok()) return array.error();
  if (array.value().columns != 1) {
    return Error{.message = "one number per sample is needed, not a row", .where = path};
  }
  for (const double value : array.value().values) {
    if (value < 0 || value > kExact || value != std::floor(value)) {
      return Error{.message = exact(value) + " is not a whole number from 0", .where = path};
    }
    counts.push_back(static_cast<std::int64_t>(value));
  }
  return counts;
}

}  // namespace

Result<NpyArray> parse_npy(std::string_view bytes, std::string_view file) {
  return NpyReader(bytes, file).read();
}

Result<Dataset> load_npy(FileSystem& files, const NpyPaths& paths) {
  Result<NpyArray> features = load(files, paths.features);
  if (!features.ok()) return features.error();
  DatasetParts parts;
  parts.name = paths.features;
  parts.size = features.value().rows;
  parts.feature_columns = features.value().columns;
  parts.features = std::move(features.value().values);
  if (!paths.targets.empty()) {
    Result<NpyArray> targets = load(files, paths.targets);
    if (!targets.ok()) return targets.error();
    parts.target_columns = targets.value().columns;
    parts.targets = std::move(targets.value().values);
  }
  Result<std::vector<std::int64_t>> labels = load_counts(files, paths.labels);
  if (!labels.ok()) return labels.error();
  parts.labels = std::move(labels.value());
  Result<std::vector<std::int64_t>> tokens = load_counts(files, paths.tokens);
  if (!tokens.ok()) return tokens.error();
  parts.tokens = std::move(tokens.value());
  return Dataset::make(std::move(parts));
}

}  // namespace lockstep::data
