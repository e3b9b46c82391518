// Named tensors as one file, in the format that Python's `safetensors` reads and writes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// Tensors by name, in the order of the file, and texts by name.
struct SafeTensors {
  std::map<std::string, std::string, std::less<>> metadata{};
  std::vector<std::pair<std::string, Tensor>> tensors{};

  /// Null when there is none of that name.
  const Tensor* find(std::string_view name) const;
};

/// Eight bytes with the length of a JSON header, little endian; the header, padded with spaces to a
/// multiple of eight; the tensors' bytes one after the other.
///
/// Requires: names that differ; metadata in UTF-8.
/// Deterministic: equal contents give equal bytes.
/// Source: the safetensors format, version 0.4 (huggingface/safetensors).
std::string render_safetensors(const SafeTensors& contents);

/// Reads what render_safetensors() wrote, or Python.
///
/// Errors: a header that is cut off or no JSON; unknown dtypes; tensors that overlap, leave holes
///     or reach over the end; more than four dimensions.
Result<SafeTensors> parse_safetensors(Runtime& runtime, std::string_view bytes);

}  // namespace lockstep
