// Named tensors in the two files that PyTorch users keep them in: safetensors, and what torch.save
// writes of a state dict. Nothing that such a file says is executed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

/// What the elements of a file may be: more than tensors of ours can hold.
enum class ElementType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kC64,   ///< Two f32.
  kC128,  ///< Two f64.
};

inline constexpr int kElementTypes = static_cast<int>(ElementType::kC128) + 1;

std::int64_t size_of(ElementType type);
/// As PyTorch calls it: "float32".
std::string_view name_of(ElementType type);
/// As safetensors calls it: "F32"; empty for what that format does not have (complex128).
std::string_view safetensors_name_of(ElementType type);

/// One tensor: its elements one after the other, the last dimension fastest, little endian.
struct StoredTensor {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::int64_t> sizes = {};
  std::string bytes = {};
};

enum class StateFormat : std::uint8_t {
  kSafetensors,
  kTorch,  ///< A zip container with a pickle, as torch.save writes it since PyTorch 1.6.
};

/// What a file holds.
struct StateFile {
  StateFormat format = StateFormat::kSafetensors;
  /// In the order of the file. Names in nested dictionaries, lists and tuples are joined with "/":
  /// "model/0.weight", "optimizer/state/0/exp_avg".
  std::vector<StoredTensor> tensors = {};
  /// Numbers and texts beside them, by the same names: "epoch" and "3".
  std::vector<std::pair<std::string, std::string>> values = {};

  /// Null when there is none of that name.
  const StoredTensor* find(std::string_view name) const;
};

/// Whether these bytes begin as one of the two formats does: which sets them apart from traces and dumps.
bool is_state_file(std::string_view bytes);

/// Reads a file's bytes; which format they have is seen from them.
///
/// Of a pickle nothing is executed: dictionaries, lists, texts, numbers, torch.Size and PyTorch's
/// functions that put tensors together are understood, and anything else is refused by its name.
/// Views, strides and storages that several tensors share are resolved: each tensor gets elements of
/// its own.
///
/// `path` names the file in errors.
/// Errors: another format; what is cut off, overlaps or contradicts itself; compressed or encrypted
///     members; tensors that are sparse, quantized or on no device; more than 16 times the file and 64 MiB in all.
Result<StateFile> parse_state(std::string_view bytes, const std::string& path);

/// Reads the file at `path`. Errors: those of read_file() and parse_state().
Result<StateFile> read_state(const std::string& path);

/// The bytes of a safetensors file: tensors in their order, values as texts of its header.
/// Requires: names that differ.
/// Deterministic: equal contents give equal bytes.
/// Errors: an element type that the format does not have.
Result<std::string> render_safetensors(const StateFile& state);

/// The bytes of a file that torch.load(..., weights_only=True) reads as a dictionary of tensors by their
/// names. Values are left out: a state dict has none.
/// Requires: names that differ.
/// Deterministic: equal contents give equal bytes.
std::string render_torch(const StateFile& state);

}  // namespace lockstep
