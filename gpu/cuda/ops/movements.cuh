// Where elements go: table look-ups, swapped axes, windows over images. What several elements are
// added into is one index, which adds them in the order of the contract.
#pragma once

#include "lockstep/gpu/cuda/ops/math.cuh"

namespace lockstep::cuda {

template <typename T>
struct GatherElement {
  T* out;
  const T* table;
  const std::int64_t* indices;
  std::int64_t n_rows;
  std::int64_t width;
  Fault* fault;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t row = indices[i / width];
    if (row < 0 || row >= n_rows) {
      *fault = Fault::kRow;
      return;
    }
    out[i] = table[row * width + i % width];
  }
};

/// Column c of table[indices[i], :] += rows[i, :], i ascending.
template <typename T>
struct ScatterColumn {
  T* table;
  const T* rows;
  const std::int64_t* indices;
  std::int64_t n_indices;
  std::int64_t n_rows;
  std::int64_t width;
  std::int64_t skipped;
  Fault* fault;

  struct Addend {
    std::int64_t row;
    T value;
  };

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    in_order(
        n_indices,
        [&](std::int64_t i) {
          return Addend{indices[i], rows[i * width + c]};
        },
        [&](const Addend& one) {
          const bool known = one.row >= 0 && one.row < n_rows;
          if (!known) *fault = Fault::kRow;
          if (known && one.row != skipped) table[one.row * width + c] += one.value;
        });
  }
};

/// Element i of (A, C, B, D) from (A, B, C, D).
template <typename T>
struct SwapMiddle {
  T* out;
  const T* in;
  std::int64_t b;
  std::int64_t c;
  std::int64_t d;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t at_d = i % d;
    const std::int64_t at_b = i / d % b;
    const std::int64_t at_c = i / d / b % c;
    const std::int64_t at_a = i / d / b / c;
    out[i] = in[((at_a * b + at_b) * c + at_c) * d + at_d];
  }
};

/// The places of a window over images of (height, width).
struct Places {
  std::int64_t height;
  std::int64_t width;
  std::int64_t window_height;
  std::int64_t window_width;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t n_down;
  std::int64_t n_right;

  LOCKSTEP_BOTH std::int64_t n() const { return n_down * n_right; }

  LOCKSTEP_BOTH std::int64_t plane() const { return height * width; }

  LOCKSTEP_BOTH std::int64_t n_taps() const { return window_height * window_width; }

  /// Position in the image of tap `tap` of window `place`, -1 in the padding.
  LOCKSTEP_BOTH std::int64_t at(std::int64_t place, std::int64_t tap) const {
    const std::int64_t y = place / n_right * stride - padding + tap / window_width;
    const std::int64_t x = place % n_right * stride - padding + tap % window_width;
    return y < 0 || x < 0 || y >= height || x >= width ? -1 : y * width + x;
  }

  /// The place whose tap `tap` falls on `position`, or -1.
  LOCKSTEP_BOTH std::int64_t place_of(std::int64_t position, std::int64_t tap) const {
    const std::int64_t y = position / width + padding - tap / window_width;
    const std::int64_t x = position % width + padding - tap % window_width;
    if (y < 0 || x < 0 || y % stride != 0 || x % stride != 0) return -1;
    const std::int64_t down = y / stride;
    const std::int64_t right = x / stride;
    return down < n_down && right < n_right ? down * n_right + right : -1;
  }
};

template <typename T>
struct UnfoldElement {
  T* out;
  const T* image;
  Places places;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t row = i / places.n();
    const std::int64_t at = places.at(i % places.n(), row % places.n_taps());
    out[i] = at < 0 ? T{0} : image[row / places.n_taps() * places.plane() + at];
  }
};

/// Element i of the image: what columns put there, taps ascending.
template <typename T>
struct FoldElement {
  T* image;
  const T* columns;
  Places places;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t channel = i / places.plane();
    T sum{0};
    for (std::int64_t tap = 0; tap < places.n_taps(); ++tap) {
      const std::int64_t place = places.place_of(i % places.plane(), tap);
      if (place < 0) continue;
      sum += columns[(channel * places.n_taps() + tap) * places.n() + place];
    }
    image[i] = sum;
  }
};

template <typename T>
struct MaxPoolWindow {
  T* out;
  std::int64_t* positions;
  const T* in;
  Places places;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t start = i / places.n() * places.plane();
    const T* const image = in + start;
    std::int64_t best = -1;
    for (std::int64_t tap = 0; tap < places.n_taps(); ++tap) {
      const std::int64_t at = places.at(i % places.n(), tap);
      if (at < 0) continue;
      if (best < 0 || image[at] > image[best] || is_nan(image[at])) best = at;
    }
    positions[i] = start + best;
    out[i] = image[best];
  }
};

/// A plane's share of out[positions[i]] += grad[i], i ascending. Positions lie in the plane of
/// their window, as max_pool gives them.
template <typename T>
struct MaxPoolSlopePlane {
  T* out;
  const T* grad;
  const std::int64_t* positions;
  std::int64_t n_windows;  ///< In one plane.
  std::int64_t plane;
  Fault* fault;

  LOCKSTEP_BOTH void operator()(std::int64_t p) const {
    T* const o = out + p * plane;
    for (std::int64_t i = 0; i < plane; ++i) o[i] = T{0};
    for (std::int64_t i = p * n_windows; i < (p + 1) * n_windows; ++i) {
      const std::int64_t at = positions[i] - p * plane;
      if (at < 0 || at >= plane) {
        *fault = Fault::kPosition;
        return;
      }
      o[at] += grad[i];
    }
  }
};

template <typename T>
struct AvgPoolWindow {
  T* out;
  const T* in;
  Places places;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const T* const image = in + i / places.n() * places.plane();
    T sum{0};
    for (std::int64_t tap = 0; tap < places.n_taps(); ++tap) {
      const std::int64_t at = places.at(i % places.n(), tap);
      if (at >= 0) sum += image[at];
    }
    out[i] = sum / static_cast<T>(places.n_taps());
  }
};

/// Element i of the images: shares of the windows over it, places ascending, which is taps
/// descending.
template <typename T>
struct AvgPoolSlopeElement {
  T* out;
  const T* grad;
  Places places;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const T* const shares = grad + i / places.plane() * places.n();
    const T area = static_cast<T>(places.n_taps());
    T sum{0};
    for (std::int64_t tap = places.n_taps() - 1; tap >= 0; --tap) {
      const std::int64_t place = places.place_of(i % places.plane(), tap);
      if (place >= 0) sum += shares[place] / area;
    }
    out[i] = sum;
  }
};

}  // namespace lockstep::cuda
