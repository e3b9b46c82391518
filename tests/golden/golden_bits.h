// Tensors as the hex words golden files hold.
#pragma once

#include <bit>
#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

#include "tests/golden/golden_file.h"

namespace lockstep::golden {

/// Splits at single spaces.
inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// One word per element: 4 hex digits for 16-bit floats, 8 for f32, 16 for f64.
inline std::vector<std::string> bits_of(const Tensor& tensor) {
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    if (size_of(tensor.dtype()) == 2) {
      words.push_back(hex64(static_cast<const std::uint16_t*>(tensor.read_raw())[i]).substr(12));
    } else if (tensor.dtype() == DType::kF32) {
      words.push_back(hex64(std::bit_cast<std::uint32_t>(tensor.data<float>()[i])).substr(8));
    } else {
      words.push_back(hex64(std::bit_cast<std::uint64_t>(tensor.data<double>()[i])));
    }
  }
  return words;
}

/// Hands out consecutive words as tensors.
class WordReader {
 public:
  explicit WordReader(const std::string& text) : words_(words_of(text)) {}

  Tensor take(Runtime& runtime, const Shape& shape, DType dtype) {
    const Tensor tensor = Tensor::empty(runtime, shape, dtype);
    for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
      const std::uint64_t word = parse_hex64(words_.at(next_++)).value();
      if (size_of(dtype) == 2) {
        static_cast<std::uint16_t*>(tensor.write_raw())[i] = static_cast<std::uint16_t>(word);
      } else if (dtype == DType::kF32) {
        tensor.data<float>()[i] = std::bit_cast<float>(static_cast<std::uint32_t>(word));
      } else {
        tensor.data<double>()[i] = std::bit_cast<double>(word);
      }
    }
    return tensor;
  }

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

inline void append(std::vector<std::string>& words, const Tensor& tensor) {
  for (std::string& word : bits_of(tensor)) words.push_back(std::move(word));
}

}  // namespace lockstep::golden
