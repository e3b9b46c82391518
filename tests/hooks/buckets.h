// Buckets made by hand, for hooks that are driven without a reducer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/random/normal.h"
#include "lockstep/reducer/comm_hook.h"

namespace lockstep::testing {

/// One zeroed bucket whose parameters have the given shapes.
inline GradBucket make_bucket(Runtime& runtime,
                              const std::vector<Shape>& shapes,
                              DType dtype = DType::kF32,
                              std::size_t index = 0,
                              bool is_last = true) {
  std::int64_t n_elems = 0;
  for (const Shape& shape : shapes) n_elems += shape.n_elems();
  const Tensor flat = Tensor::zeros(runtime, {n_elems}, dtype);
  std::vector<Variable> parameters;
  std::vector<Tensor> gradients;
  std::int64_t first = 0;
  for (const Shape& shape : shapes) {
    parameters.emplace_back(Tensor::zeros(runtime, shape, dtype), true);
    gradients.push_back(flat.slice(first, shape));
    first += shape.n_elems();
  }
  return {index, is_last, flat, std::move(parameters), std::move(gradients)};
}

/// As above, of one parameter with these values.
inline GradBucket make_bucket(Runtime& runtime,
                              const std::vector<double>& values,
                              DType dtype = DType::kF32) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  GradBucket bucket = make_bucket(runtime, std::vector<Shape>{shape}, dtype);
  runtime.kernels().copy(bucket.buffer(), Tensor::of(runtime, shape, dtype, values));
  return bucket;
}

inline void fill_normal(const Tensor& out, std::uint64_t seed) {
  Generator generator(seed);
  if (out.dtype() == DType::kF32) {
    normal(generator, out.span<float>());
  } else {
    normal(generator, out.span<double>());
  }
}

inline Tensor run_and_wait(CommHook& hook, GradBucket& bucket) { return hook.run(bucket)->wait(); }

inline Tensor run_and_wait(CommHook& hook, GradBucket&& bucket) { return hook.run(bucket)->wait(); }

/// "7/4x3,5": two buckets, the second of two parameters.
inline std::vector<std::vector<Shape>> parse_buckets(const std::string& text) {
  std::vector<std::vector<Shape>> buckets(1);
  std::vector<std::int64_t> sizes;
  std::string number;
  for (const char c : text + "/") {
    if (c >= '0' && c <= '9') {
      number += c;
      continue;
    }
    sizes.push_back(parse_int(number).value());
    number.clear();
    if (c == 'x') continue;
    buckets.back().emplace_back(std::span<const std::int64_t>(sizes));
    sizes.clear();
    if (c == '/') buckets.emplace_back();
  }
  buckets.pop_back();
  return buckets;
}

}  // namespace lockstep::testing
