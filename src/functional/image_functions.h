// Differentiable operations on images (N, C, H, W).
#pragma once

#include <cstdint>

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// How filters move over an image.
struct Convolution {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< Zeros on each side.
};

/// Slides the filters weight (O, C, kh, kw) over x (N, C, H, W), adds bias (O,) when defined ->
/// (N, O, H', W') with H' = (H + 2 padding - kh) / stride + 1, rounded down.
///
/// Deterministic: image by image, a matrix product of filters and unfolded windows; the weight's
///     gradient adds the images in ascending order.
/// Source: torch conv2d with groups = 1 and dilation = 1.
Variable conv2d(const Variable& x,
                const Variable& weight,
                const Variable& bias,
                Convolution options = {});

/// The largest value of each window, the first of equals; its gradient goes there alone.
/// Source: torch max_pool2d.
Variable max_pool2d(const Variable& x, const Kernels::Window& window);

/// The mean of each window, padding counted as zeros. Source: torch avg_pool2d.
Variable avg_pool2d(const Variable& x, const Kernels::Window& window);

}  // namespace lockstep
