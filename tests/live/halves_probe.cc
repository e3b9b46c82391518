// Answers the cases of halves.py: "FROM TO WORD..." -> the converted words | the words read back as
// f32.
#include <bit>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/text.h"

#include "tests/support/test_runtime.h"

namespace {

using namespace lockstep;

Tensor tensor_of(Runtime& runtime, std::istringstream& text, DType dtype) {
  std::vector<std::uint64_t> words;
  for (std::string word; text >> word;) words.push_back(parse_hex64(word).value());
  const Tensor tensor = Tensor::empty(runtime, {static_cast<std::int64_t>(words.size())}, dtype);
  const auto n_bytes = static_cast<std::size_t>(size_of(dtype));
  auto* bytes = static_cast<std::byte*>(tensor.raw());
  for (std::size_t i = 0; i < words.size(); ++i)
    std::memcpy(bytes + i * n_bytes, &words[i], n_bytes);
  return tensor;
}

std::string answer(Runtime& runtime, const std::string& line) {
  std::istringstream text(line);
  std::string from;
  std::string to;
  text >> from >> to;
  const Tensor wide = tensor_of(runtime, text, parse_enum<DType>(from).value());
  const Tensor narrow = wide.to(parse_enum<DType>(to).value());
  const Tensor back = narrow.to(DType::kF32);
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < narrow.n_elems(); ++i) {
    words.push_back(hex64(static_cast<const std::uint16_t*>(narrow.raw())[i]).substr(12));
  }
  std::vector<std::string> read;
  for (const float value : back.span<float>()) {
    const float one_nan = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
    read.push_back(hex64(std::bit_cast<std::uint32_t>(one_nan)).substr(8));
  }
  return join(words, " ") + " | " + join(read, " ");
}

}  // namespace

int main() {
  lockstep::testing::TestRuntime test;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(test.runtime, line) << '\n';
  }
  return 0;
}
