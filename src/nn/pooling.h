// Pools over images (N, C, H, W) as modules, and the way from rows to images and back.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/functional/functions.h"
#include "lockstep/functional/image_functions.h"
#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// A square window that moves by its own size, as pools do unless configured otherwise.
constexpr Kernels::Window tile(std::int64_t size) {
  return {.height = size, .width = size, .stride = size, .padding = 0};
}

/// "(height, width, stride, padding)", as numbers.
inline std::string text_of(const Kernels::Window& window) {
  return "(" + std::to_string(window.height) + ", " + std::to_string(window.width) + ", " +
         std::to_string(window.stride) + ", " + std::to_string(window.padding) + ")";
}

/// Source: torch.nn.MaxPool2d.
class MaxPool2d final : public Module {
 public:
  MaxPool2d(Runtime& runtime, const Kernels::Window& window) : Module(runtime), window_(window) {}

  Variable forward(const Variable& x) override { return max_pool2d(x, window_); }

 private:
  std::string description() const override { return "MaxPool2d" + text_of(window_); }

  Kernels::Window window_;
};

/// Padding counts as zeros. Source: torch.nn.AvgPool2d.
class AvgPool2d final : public Module {
 public:
  AvgPool2d(Runtime& runtime, const Kernels::Window& window) : Module(runtime), window_(window) {}

  Variable forward(const Variable& x) override { return avg_pool2d(x, window_); }

 private:
  std::string description() const override { return "AvgPool2d" + text_of(window_); }

  Kernels::Window window_;
};

/// The mean of each channel: (N, C, H, W) -> (N, C, 1, 1). Source: torch.nn.AdaptiveAvgPool2d(1).
class GlobalAvgPool2d final : public Module {
 public:
  using Module::Module;

  Variable forward(const Variable& x) override {
    LOCKSTEP_CHECK(x.shape().n_dims() == 4, "pooling takes (N, C, H, W), not " + x.shape().text());
    return avg_pool2d(x, {.height = x.shape()[2], .width = x.shape()[3]});
  }
};

/// (N, ...) -> (N, the rest). Source: torch.nn.Flatten.
class Flatten final : public Module {
 public:
  using Module::Module;

  Variable forward(const Variable& x) override {
    const std::int64_t n = x.shape()[0];
    std::int64_t width = 1;
    for (const std::int64_t size : x.shape().sizes().subspan(1)) width *= size;
    return reshape(x, {n, width});
  }
};

/// (N, C * H * W) -> (N, C, H, W). Source: torch.nn.Unflatten.
class Unflatten final : public Module {
 public:
  /// `image` is (C, H, W).
  Unflatten(Runtime& runtime, const Shape& image) : Module(runtime), image_(image) {
    LOCKSTEP_CHECK(image.n_dims() == 3, "an image has shape (C, H, W), not " + image.text());
  }

  Variable forward(const Variable& x) override {
    return reshape(x, {x.shape()[0], image_[0], image_[1], image_[2]});
  }

 private:
  Shape image_;
};

}  // namespace lockstep::nn
