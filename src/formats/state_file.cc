#include "lockstep/formats/state_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/formats/detail/safetensors_layout.h"
#include "lockstep/formats/detail/state_pickle.h"
#include "lockstep/formats/detail/stored_zip.h"

namespace lockstep {

namespace {

struct TypeRow {
  std::string_view name;
  std::string_view safetensors;
  std::int64_t size = 0;
};

constexpr std::array<TypeRow, kElementTypes> kTypes = {{
    {"float64", "F64", 8},
    {"float32", "F32", 4},
    {"float16", "F16", 2},
    {"bfloat16", "BF16", 2},
    {"float8_e4m3fn", "F8_E4M3", 1},
    {"float8_e5m2", "F8_E5M2", 1},
    {"float8_e8m0fnu", "F8_E8M0", 1},
    {"int64", "I64", 8},
    {"int32", "I32", 4},
    {"int16", "I16", 2},
    {"int8", "I8", 1},
    {"uint64", "U64", 8},
    {"uint32", "U32", 4},
    {"uint16", "U16", 2},
    {"uint8", "U8", 1},
    {"bool", "BOOL", 1},
    {"complex64", "C64", 8},
    {"complex128", "", 16},
}};

const TypeRow& row_of(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }

using Storages = std::map<std::string, std::string_view, std::less<>>;

Error about(const std::string& name, const std::string& what) {
  return Error{"tensor '" + name + "': " + what, {}};
}

/// Elements of a tensor, or nothing where their number overflows or a size is negative.
std::optional<std::int64_t> n_elements(std::span<const std::int64_t> sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(n, size, &n)) return std::nullopt;
  }
  return n;
}

/// The element furthest into the storage that a view reads, or nothing where that overflows. A view
/// of no element reads none.
std::optional<std::int64_t> last_element(const detail::PickledTensor& view) {
  std::int64_t last = view.offset;
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    std::int64_t reach = 0;
    if (view.strides[i] < 0 || __builtin_mul_overflow(view.sizes[i] - 1, view.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  return last;
}

/// Copies a view's elements in order: an odometer over its sizes.
std::string gather(const detail::PickledTensor& view, std::string_view storage, std::int64_t n) {
  const auto size = static_cast<std::size_t>(size_of(view.type));
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(n) * size);
  std::vector<std::int64_t> index(view.sizes.size(), 0);
  std::int64_t at = view.offset;
  for (std::int64_t i = 0; i < n; ++i) {
    bytes += storage.substr(static_cast<std::size_t>(at) * size, size);
    for (std::size_t d = view.sizes.size(); d-- > 0;) {
      at += view.strides[d];
      if (++index[d] < view.sizes[d]) break;
      at -= view.strides[d] * view.sizes[d];
      index[d] = 0;
    }
  }
  return bytes;
}

/// Makes tensors of views, and keeps count of how much that is.
class Gatherer {
 public:
  Gatherer(const Storages& storages, std::size_t n_file)
      : storages_(&storages),
        left_(std::max(kAlways, static_cast<std::int64_t>(n_file) * kMostOfFile)) {}

  Result<StoredTensor> tensor(const detail::PickledTensor& view) {
    const auto storage = storages_->find(view.storage);
    if (storage == storages_->end()) return about(view.name, "its storage is not in the file");
    const std::optional<std::int64_t> n = n_elements(view.sizes);
    std::int64_t n_bytes = 0;
    if (!n || view.offset < 0 || __builtin_mul_overflow(*n, size_of(view.type), &n_bytes)) {
      return about(view.name, "its sizes are impossible");
    }
    if (n_bytes > left_) {
      return about(view.name, "with it, tensors would take more than 16 times the file");
    }
    left_ -= n_bytes;
    StoredTensor tensor{view.name, view.type, view.sizes, {}};
    if (*n == 0) return tensor;
    const std::optional<std::int64_t> last = last_element(view);
    const auto n_held = static_cast<std::int64_t>(storage->second.size()) / size_of(view.type);
    if (!last || *last >= n_held) return about(view.name, "it reaches over the end of its storage");
    tensor.bytes = gather(view, storage->second, *n);
    return tensor;
  }

 private:
  static constexpr std::int64_t kMostOfFile = 16;
  static constexpr std::int64_t kAlways = std::int64_t{64} << 20U;

  const Storages* storages_;
  std::int64_t left_;
};

/// The member that ends in `suffix`, below the archive's one folder.
const detail::ZipMember* member(const std::vector<detail::ZipMember>& members,
                                std::string_view suffix) {
  for (const detail::ZipMember& one : members) {
    const std::size_t slash = one.name.find('/');
    const std::size_t inside = slash == std::string::npos ? 0 : slash + 1;
    if (std::string_view(one.name).substr(inside) == suffix) return &one;
  }
  return nullptr;
}

Storages storages_of(const std::vector<detail::ZipMember>& members) {
  constexpr std::string_view kFolder = "/data/";
  Storages storages;
  for (const detail::ZipMember& one : members) {
    const std::size_t at = one.name.find(kFolder);
    if (at != std::string::npos) storages[one.name.substr(at + kFolder.size())] = one.data;
  }
  return storages;
}

Result<StateFile> parse_torch(std::string_view bytes) {
  const Result<std::vector<detail::ZipMember>> members = detail::read_stored_zip(bytes);
  if (!members.ok()) return members.error();
  const detail::ZipMember* const pickle = member(members.value(), "data.pkl");
  if (pickle == nullptr)
    return Error{"a zip archive without data.pkl: not written by torch.save", {}};
  const detail::ZipMember* const order = member(members.value(), "byteorder");
  if (order != nullptr && order->data != "little") {
    return Error{"its numbers are big endian", {}};
  }
  Result<detail::PickledState> pickled = detail::read_state_pickle(pickle->data);
  if (!pickled.ok()) return Error{"data.pkl: " + pickled.error().message, pickled.error().where};
  const Storages storages = storages_of(members.value());
  Gatherer gatherer(storages, bytes.size());
  StateFile state{.format = StateFormat::kTorch, .values = std::move(pickled.value().values)};
  for (const detail::PickledTensor& view : pickled.value().tensors) {
    Result<StoredTensor> tensor = gatherer.tensor(view);
    if (!tensor.ok()) return tensor.error();
    state.tensors.push_back(std::move(tensor).value());
  }
  return state;
}

std::optional<ElementType> type_named(std::string_view name) {
  for (int i = 0; i < kElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    if (safetensors_name_of(type) == name) return type;
  }
  return std::nullopt;
}

Result<StateFile> parse_safetensors_state(std::string_view bytes) {
  const auto size = [](std::string_view name) -> std::int64_t {
    const std::optional<ElementType> type = type_named(name);
    return type ? size_of(*type) : 0;
  };
  Result<detail::SafetensorsLayout> layout = detail::read_safetensors_layout(bytes, size);
  if (!layout.ok()) return layout.error();
  StateFile state{.format = StateFormat::kSafetensors};
  for (detail::SafetensorsEntry& entry : layout.value().entries) {
    StoredTensor tensor{
        std::move(entry.name), *type_named(entry.dtype), std::move(entry.sizes), {}};
    tensor.bytes = layout.value().data.substr(static_cast<std::size_t>(entry.first),
                                              static_cast<std::size_t>(entry.end - entry.first));
    state.tensors.push_back(std::move(tensor));
  }
  for (auto& [name, text] : layout.value().metadata) state.values.emplace_back(name, text);
  return state;
}

/// A header's length and its opening brace.
bool is_safetensors(std::string_view bytes) {
  return bytes.size() > 8 && bytes[8] == '{' && bytes[7] == '\0' && bytes[6] == '\0';
}

/// What it quotes of the file is printable.
Error in_file(const Error& error, const std::string& path) {
  return Error{printable(error.message), error.where.empty() ? path : path + ": " + error.where};
}

}  // namespace

std::int64_t size_of(ElementType type) { return row_of(type).size; }

std::string_view name_of(ElementType type) { return row_of(type).name; }

std::string_view safetensors_name_of(ElementType type) { return row_of(type).safetensors; }

const StoredTensor* StateFile::find(std::string_view name) const {
  for (const StoredTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

bool is_state_file(std::string_view bytes) {
  return detail::is_zip(bytes) || is_safetensors(bytes);
}

Result<StateFile> parse_state(std::string_view bytes, const std::string& path) {
  constexpr std::string_view kOldMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  if (bytes.starts_with(kOldMagic)) {
    return Error{"written by a PyTorch before 1.6; load it there and save it again", path};
  }
  if (!is_state_file(bytes)) return Error{"neither safetensors nor a file of torch.save", path};
  Result<StateFile> state =
      detail::is_zip(bytes) ? parse_torch(bytes) : parse_safetensors_state(bytes);
  if (!state.ok()) return in_file(state.error(), path);
  return state;
}

Result<StateFile> read_state(const std::string& path) {
  const Result<std::string> bytes = read_file(path);
  if (!bytes.ok()) return bytes.error();
  return parse_state(bytes.value(), path);
}

Result<std::string> render_safetensors(const StateFile& state) {
  detail::SafetensorsLayout layout;
  for (const auto& [name, text] : state.values) layout.metadata.emplace(name, text);
  std::string data;
  for (const StoredTensor& tensor : state.tensors) {
    const std::string_view type = safetensors_name_of(tensor.type);
    if (type.empty()) {
      return about(tensor.name, "safetensors has no " + std::string(name_of(tensor.type)));
    }
    const auto first = static_cast<std::int64_t>(data.size());
    data += tensor.bytes;
    layout.entries.push_back({tensor.name,
                              std::string(type),
                              tensor.sizes,
                              first,
                              static_cast<std::int64_t>(data.size())});
  }
  return detail::render_safetensors_header(layout) + data;
}

std::string render_torch(const StateFile& state) {
  detail::StoredZip zip;
  zip.add("archive/data.pkl", detail::render_state_pickle(state.tensors));
  zip.add("archive/byteorder", "little");
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    zip.add("archive/data/" + std::to_string(i), state.tensors[i].bytes);
  }
  zip.add("archive/version", "3\n");
  return zip.finish();
}

}  // namespace lockstep
