#include "lockstep/tensor/dtype.h"

#include <array>

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 9> kNames = {
    "f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64", "bool"};

}  // namespace

std::string_view name_of(DType dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace lockstep
