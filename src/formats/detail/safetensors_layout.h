// Where tensors lie in a safetensors file: its header, whatever types of elements it names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::detail {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< As the file calls it: "F32".
  std::vector<std::int64_t> sizes;
  std::int64_t first = 0;  ///< In the data, bytes.
  std::int64_t end = 0;
};

struct SafetensorsLayout {
  std::map<std::string, std::string, std::less<>> metadata = {};
  std::vector<SafetensorsEntry> entries = {};  ///< In the order of their bytes.
  std::string_view data = {};                  ///< After the header; points into the file's bytes.
};

/// Bytes of an element of a type; 0 = unknown, which is an error.
using ElementSize = std::function<std::int64_t(std::string_view dtype)>;

/// Every entry's bytes are those that its shape takes, and all of them together are the data.
/// Errors: those of parse_safetensors().
Result<SafetensorsLayout> read_safetensors_layout(std::string_view bytes,
                                                  const ElementSize& size_of);

/// What comes before the data: the length of a JSON header and the header, padded with spaces.
std::string render_safetensors_header(const SafetensorsLayout& layout);

}  // namespace lockstep::detail
