// Where elements go: table look-ups, swapped axes, windows over images.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

std::int64_t row_width(const Tensor& table, const Tensor& rows, const Tensor& indices) {
  LOCKSTEP_CHECK(table.shape().n_dims() == 2,
                 fmt::format("a table has shape (rows, width), not {}", table.text()));
  LOCKSTEP_CHECK(
      rows.n_elems() == indices.n_elems() * table.size(1),
      fmt::format("{} rows for {} indices into {}", rows.text(), indices.n_elems(), table.text()));
  return table.size(1);
}

std::int64_t checked_row(std::int64_t index, const Tensor& table) {
  LOCKSTEP_CHECK(index >= 0 && index < table.size(0),
                 fmt::format("index {} is not a row of the table {}, which has {}",
                             index,
                             table.text(),
                             table.size(0)));
  return index;
}

/// The places of a window over an image of (H, W).
struct Places {
  Places(std::int64_t image_height, std::int64_t image_width, const Kernels::Window& w)
      : height(image_height), width(image_width), window(w) {
    LOCKSTEP_CHECK(w.stride > 0 && w.padding >= 0 && w.height > 0 && w.width > 0,
                   fmt::format("a window of {} by {} with stride {} and padding {}: sizes and "
                               "stride are positive, padding is not negative",
                               w.height,
                               w.width,
                               w.stride,
                               w.padding));
    const std::int64_t down = height + 2 * w.padding - w.height;
    const std::int64_t right = width + 2 * w.padding - w.width;
    LOCKSTEP_CHECK(
        down >= 0 && right >= 0,
        fmt::format("a window of {} by {} is larger than the image of {} by {} with padding {}",
                    w.height,
                    w.width,
                    height,
                    width,
                    w.padding));
    n_down = down / w.stride + 1;
    n_right = right / w.stride + 1;
  }

  std::int64_t n() const { return n_down * n_right; }

  /// Position in the image of element (dy, dx) of window `place`, -1 in the padding.
  std::int64_t at(std::int64_t place, std::int64_t dy, std::int64_t dx) const {
    const std::int64_t y = place / n_right * window.stride - window.padding + dy;
    const std::int64_t x = place % n_right * window.stride - window.padding + dx;
    return y < 0 || x < 0 || y >= height || x >= width ? -1 : y * width + x;
  }

  std::int64_t height;
  std::int64_t width;
  Kernels::Window window;
  std::int64_t n_down = 0;
  std::int64_t n_right = 0;
};

/// Calls f(position in columns, position in image or -1) for a whole image (C, H, W).
template <typename F>
void for_each_column(const Shape& image, const Kernels::Window& window, F f) {
  const Places places(image[1], image[2], window);
  const std::int64_t n_taps = window.height * window.width;
  for (std::int64_t row = 0; row < image[0] * n_taps; ++row) {
    const std::int64_t tap = row % n_taps;
    const std::int64_t first = row / n_taps * places.height * places.width;
    for (std::int64_t place = 0; place < places.n(); ++place) {
      const std::int64_t at = places.at(place, tap / window.width, tap % window.width);
      f(row * places.n() + place, at < 0 ? at : first + at);
    }
  }
}

void check_columns(const Tensor& image, const Tensor& columns, const Kernels::Window& window) {
  LOCKSTEP_CHECK(image.shape().n_dims() == 3,
                 fmt::format("an image has shape (C, H, W), not {}", image.text()));
  const Places places(image.size(1), image.size(2), window);
  LOCKSTEP_CHECK(columns.n_elems() == image.size(0) * window.height * window.width * places.n(),
                 fmt::format("{} cannot hold the windows of {}", columns.text(), image.text()));
}

/// One window of a pool: where its plane (H, W) starts, and the number of its result.
struct PoolWindow {
  const Places* places;
  std::int64_t place;
  std::int64_t plane_start;
  std::int64_t result;

  /// Calls f(position in the plane) for each one inside the image, row by row.
  template <typename F>
  void for_each_tap(F f) const {
    const Kernels::Window& w = places->window;
    for (std::int64_t tap = 0; tap < w.height * w.width; ++tap) {
      const std::int64_t at = places->at(place, tap / w.width, tap % w.width);
      if (at >= 0) f(at);
    }
  }
};

/// Calls f(PoolWindow) for each window over the planes of images (N, C, H, W).
template <typename F>
void for_each_window(const Tensor& images,
                     const Tensor& results,
                     const Kernels::Window& window,
                     F f) {
  const Shape& s = images.shape();
  LOCKSTEP_CHECK(s.n_dims() == 4, fmt::format("pooling takes (N, C, H, W), not {}", images.text()));
  LOCKSTEP_CHECK(2 * window.padding <= std::min(window.height, window.width),
                 fmt::format("padding {} is more than half of the pooling window of {} by {}",
                             window.padding,
                             window.height,
                             window.width));
  const Places places(s[2], s[3], window);
  LOCKSTEP_CHECK(
      results.n_elems() == s[0] * s[1] * places.n(),
      fmt::format(
          "{} cannot hold the results of {} windows", results.text(), s[0] * s[1] * places.n()));
  for (std::int64_t plane = 0; plane < s[0] * s[1]; ++plane) {
    for (std::int64_t place = 0; place < places.n(); ++place) {
      f(PoolWindow{&places, place, plane * s[2] * s[3], plane * places.n() + place});
    }
  }
}

template <typename T>
std::int64_t largest_at(const T* image, const PoolWindow& window) {
  std::int64_t best = -1;
  window.for_each_tap([&](std::int64_t at) {
    // The last comparison lets NaN win, as in PyTorch.
    if (best < 0 || load(image[at]) > load(image[best]) || std::isnan(load(image[at]))) best = at;
  });
  return best;
}

}  // namespace

void CpuKernels::gather_rows(const Tensor& out, const Tensor& table, const Tensor& indices) {
  const std::int64_t width = row_width(table, out, indices);
  for_real(table.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < indices.n_elems(); ++i) {
      const std::int64_t row = checked_row(indices.read<std::int64_t>()[i], table);
      std::copy_n(table.read<T>() + row * width, width, out.write<T>() + i * width);
    }
  });
}

void CpuKernels::scatter_add_rows(const Tensor& table,
                                  const Tensor& rows,
                                  const Tensor& indices,
                                  std::int64_t skipped) {
  const std::int64_t width = row_width(table, rows, indices);
  for_real(table.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < indices.n_elems(); ++i) {
      const std::int64_t row = checked_row(indices.read<std::int64_t>()[i], table);
      if (row == skipped) continue;
      T* const o = table.write<T>() + row * width;
      const T* const r = rows.read<T>() + i * width;
      each(width, [=](std::int64_t c) { o[c] = rounded<T>(load(o[c]) + load(r[c])); });
    }
  });
}

void CpuKernels::swap_middle(const Tensor& out, const Tensor& in) {
  agreed_elems(out, in);
  const Shape& s = in.shape();
  LOCKSTEP_CHECK(s.n_dims() == 4,
                 fmt::format("swapping the middle takes four dimensions, not {}", in.text()));
  for_real(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* o = out.write<T>();
    for (std::int64_t a = 0; a < s[0]; ++a) {
      for (std::int64_t row = 0; row < s[1] * s[2]; ++row) {
        const std::int64_t c = row / s[1];
        const std::int64_t b = row % s[1];
        o = std::copy_n(in.read<T>() + ((a * s[1] + b) * s[2] + c) * s[3], s[3], o);
      }
    }
  });
}

void CpuKernels::unfold(const Tensor& out, const Tensor& image, const Window& window) {
  check_columns(image, out, window);
  for_real(image.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const o = out.write<T>();
    const T* const x = image.read<T>();
    for_each_column(image.shape(), window, [=](std::int64_t column, std::int64_t at) {
      o[column] = at < 0 ? T{0} : x[at];
    });
  });
}

void CpuKernels::fold(const Tensor& image, const Tensor& columns, const Window& window) {
  check_columns(image, columns, window);
  fill(image, 0.0);
  for_real(image.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const o = image.write<T>();
    const T* const x = columns.read<T>();
    for_each_column(image.shape(), window, [=](std::int64_t column, std::int64_t at) {
      if (at >= 0) o[at] = rounded<T>(load(o[at]) + load(x[column]));
    });
  });
}

void CpuKernels::max_pool(const Tensor& out,
                          const Tensor& positions,
                          const Tensor& in,
                          const Window& window) {
  agreed_elems(out, positions);
  for_real(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for_each_window(in, out, window, [&](const PoolWindow& at) {
      const std::int64_t best = at.plane_start + largest_at(in.read<T>() + at.plane_start, at);
      positions.write<std::int64_t>()[at.result] = best;
      out.write<T>()[at.result] = in.read<T>()[best];
    });
  });
}

void CpuKernels::avg_pool(const Tensor& out, const Tensor& in, const Window& window) {
  for_real(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto area = static_cast<Value<T>>(window.height * window.width);
    for_each_window(in, out, window, [&](const PoolWindow& at) {
      const T* const x = in.read<T>() + at.plane_start;
      Value<T> sum{0};
      at.for_each_tap([&](std::int64_t position) { sum += load(x[position]); });
      out.write<T>()[at.result] = rounded<T>(sum / area);
    });
  });
}

void CpuKernels::avg_pool_backward(const Tensor& out, const Tensor& grad, const Window& window) {
  fill(out, 0.0);
  for_real(grad.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto area = static_cast<Value<T>>(window.height * window.width);
    for_each_window(out, grad, window, [&](const PoolWindow& at) {
      T* const o = out.write<T>() + at.plane_start;
      const Value<T> share = settled<T>(load(grad.read<T>()[at.result]) / area);
      at.for_each_tap(
          [&](std::int64_t position) { o[position] = rounded<T>(load(o[position]) + share); });
    });
  });
}

void CpuKernels::max_pool_backward(const Tensor& out, const Tensor& grad, const Tensor& positions) {
  const std::int64_t n = agreed_elems(grad, positions);
  fill(out, 0.0);
  for_real(grad.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const o = out.write<T>();
    const T* const g = grad.read<T>();
    const std::int64_t* const at = positions.read<std::int64_t>();
    for (std::int64_t i = 0; i < n; ++i) {
      o[at[i]] = rounded<T>(load(o[at[i]]) + load(g[i]));
    }
  });
}

}  // namespace lockstep::detail
