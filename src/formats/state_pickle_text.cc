#include <algorithm>

#include "lockstep/formats/detail/pickle_names.h"
#include "lockstep/formats/detail/state_pickle.h"

namespace lockstep::detail {

namespace {

/// Writes opcodes of protocol 2.
class PickleText {
 public:
  void raw(std::string_view opcodes) { out_ += opcodes; }

  void name(std::string_view dotted) {
    const std::size_t dot = dotted.rfind('.');
    out_ += 'c';
    out_ += dotted.substr(0, dot);
    out_ += '\n';
    out_ += dotted.substr(dot + 1);
    out_ += '\n';
  }

  void text(std::string_view value) {
    out_ += 'X';
    number(value.size(), 4);
    out_ += value;
  }

  void integer(std::int64_t value) {
    out_ += '\x8a';
    out_ += '\x08';
    number(static_cast<std::uint64_t>(value), 8);
  }

  void integers(std::span<const std::int64_t> values) {
    out_ += '(';
    for (const std::int64_t value : values) integer(value);
    out_ += 't';
  }

  std::string take() { return std::move(out_); }

 private:
  void number(std::uint64_t value, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out_ += static_cast<char>((value >> (8 * i)) & 0xFFU);
  }

  std::string out_;
};

std::vector<std::int64_t> contiguous(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

void write_tensor(PickleText& out, const StoredTensor& tensor, std::size_t nth) {
  const std::string_view storage = storage_class_of(tensor.type);
  const bool typed = storage.empty();
  const auto n_bytes = static_cast<std::int64_t>(tensor.bytes.size());
  out.name(typed ? "torch._utils._rebuild_tensor_v3" : "torch._utils._rebuild_tensor_v2");
  out.raw("((");
  out.text("storage");
  out.name(typed ? "torch.storage.UntypedStorage" : storage);
  out.text(std::to_string(nth));
  out.text("cpu");
  out.integer(typed ? n_bytes : n_bytes / size_of(tensor.type));
  out.raw("tQ");
  out.integer(0);
  out.integers(tensor.sizes);
  out.integers(contiguous(tensor.sizes));
  out.raw("\x89");
  out.name("collections.OrderedDict");
  out.raw(")R");
  if (typed) out.name("torch." + std::string(name_of(tensor.type)));
  out.raw("tR");
}

}  // namespace

std::string render_state_pickle(std::span<const StoredTensor> tensors) {
  PickleText out;
  out.raw("\x80\x02");
  out.raw("}(");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out.text(tensors[i].name);
    write_tensor(out, tensors[i], i);
  }
  out.raw("u.");
  return out.take();
}

}  // namespace lockstep::detail
