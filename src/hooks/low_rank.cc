#include "lockstep/hooks/low_rank.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/core.h>
#include <type_traits>
#include <vector>

#include "lockstep/base/check.h"

namespace lockstep {

namespace {

template <typename T>
constexpr std::int64_t kLanes = 32 / static_cast<std::int64_t>(sizeof(T));  // Of a 256-bit vector.

/// A matrix inside a stack, by strides.
template <typename T>
struct Strided {
  T* data = nullptr;
  std::int64_t row = 1;     ///< Stride from row to row.
  std::int64_t column = 1;  ///< Stride from column to column.

  T& at(std::int64_t i, std::int64_t j) const { return data[i * row + j * column]; }
};

template <typename T>
void multiply_one(const Strided<T>& out,
                  const Strided<const T>& a,
                  const Strided<const T>& b,
                  const Shape& sizes) {
  const std::int64_t n_columns = sizes[1];
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    T* const o = out.data + i * out.row;
    std::fill(o, o + n_columns, T{0});
    for (std::int64_t k = 0; k < sizes[2]; ++k) {
      const T factor = a.at(i, k);
      for (std::int64_t j = 0; j < n_columns; ++j) o[j] += factor * b.at(k, j);
    }
  }
}

template <typename T>
Strided<const T> operand(const Tensor& stack, std::int64_t index, bool transposed) {
  const std::int64_t width = stack.size(2);
  const T* const data = stack.read<T>() + index * stack.size(1) * width;
  return transposed ? Strided<const T>{data, 1, width} : Strided<const T>{data, width, 1};
}

template <typename T>
void multiply_stack(const Tensor& out, const Tensor& a, const Tensor& b, StackProduct product) {
  const bool transpose_a = product == StackProduct::kTransposeA;
  const bool transpose_b = product == StackProduct::kTransposeB;
  const std::int64_t n_rows = out.size(1);
  const std::int64_t n_columns = out.size(2);
  const std::int64_t depth = a.size(transpose_a ? 1 : 2);
  LOCKSTEP_CHECK(
      a.size(0) == out.size(0) && b.size(0) == out.size(0) &&
          a.size(transpose_a ? 2 : 1) == n_rows && b.size(transpose_b ? 1 : 2) == n_columns &&
          b.size(transpose_b ? 2 : 1) == depth,
      fmt::format("cannot multiply the stacks {} and {} into {}", a.text(), b.text(), out.text()));
  for (std::int64_t s = 0; s < out.size(0); ++s) {
    multiply_one<T>({out.write<T>() + s * n_rows * n_columns, n_columns, 1},
                    operand<T>(a, s, transpose_a),
                    operand<T>(b, s, transpose_b),
                    {n_rows, n_columns, depth});
  }
}

// ---- Gram and Schmidt

/// sqrt(sum of squares), the squares added one by one.
template <typename T>
T strided_norm(const T* x, std::int64_t n, std::int64_t stride) {
  T sum{0};
  for (std::int64_t i = 0; i < n; ++i) {
    sum = std::fma(x[i * stride], x[i * stride], sum);
  }
  return std::sqrt(sum);
}

/// The same in a vector's lanes: what torch.norm does with floats that lie one after another.
float contiguous_norm(const float* x, std::int64_t n) {
  std::array<float, kLanes<float>> lanes{};
  const std::int64_t n_whole = n - n % kLanes<float>;
  for (std::int64_t i = 0; i < n_whole; i += kLanes<float>) {
    for (std::size_t j = 0; j < lanes.size(); ++j) {
      const float value = x[i + static_cast<std::int64_t>(j)];
      lanes[j] = std::fma(value, value, lanes[j]);
    }
  }
  float sum = lanes[0];
  for (std::size_t j = 1; j < lanes.size(); ++j) sum += lanes[j];
  // After the whole vectors compilers square four at a time and add them one by one.
  const std::int64_t n_fours = n - n % 4;
  for (std::int64_t i = n_whole; i < n_fours; ++i) sum += x[i] * x[i];
  for (std::int64_t i = n_fours; i < n; ++i) sum = std::fma(x[i], x[i], sum);
  return std::sqrt(sum);
}

template <typename T>
T column_norm(const T* x, std::int64_t n, std::int64_t stride) {
  if constexpr (std::is_same_v<T, float>) {
    if (stride == 1) return contiguous_norm(x, n);
  }
  return strided_norm(x, n, stride);
}

std::int64_t ceil_log2(std::int64_t n) {
  return n <= 1 ? 0 : static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
}

/// Sums of many addends pass through levels, so that no sum grows from one addend at a time.
template <typename T>
class CascadeSum {
 public:
  /// `lanes` <= 4 * kLanes<T> sums side by side, `n_rounds` additions to each.
  CascadeSum(std::size_t lanes, std::int64_t n_rounds)
      : n_lanes_(lanes),
        power_(std::max<std::int64_t>(4, ceil_log2(n_rounds) / 4)),
        n_in_full_steps_(n_rounds - n_rounds % (std::int64_t{1} << power_)) {}

  void add(const T* x) {
    for (std::size_t k = 0; k < n_lanes_; ++k) levels_[0][k] += x[k];
    const std::int64_t step = std::int64_t{1} << power_;
    if (++n_added_ <= n_in_full_steps_ && n_added_ % step == 0) carry(step - 1);
  }

  /// All levels added up. No add() after it.
  const T* total() {
    for (std::size_t level = 1; level < kLevels; ++level) {
      for (std::size_t k = 0; k < n_lanes_; ++k) levels_[0][k] += levels_[level][k];
    }
    return levels_[0].data();
  }

 private:
  static constexpr std::size_t kLevels = 4;

  void carry(std::int64_t mask) {
    for (std::size_t level = 1; level < kLevels; ++level) {
      for (std::size_t k = 0; k < n_lanes_; ++k) {
        levels_[level][k] += levels_[level - 1][k];
        levels_[level - 1][k] = T{0};
      }
      if ((n_added_ & (mask << (static_cast<std::int64_t>(level) * power_))) != 0) return;
    }
  }

  std::size_t n_lanes_;
  std::int64_t power_;  ///< A level takes 2^power sums of the one below.
  std::int64_t n_in_full_steps_;
  std::int64_t n_added_ = 0;
  std::array<std::array<T, 4 * kLanes<T>>, kLevels> levels_{};
};

/// The sum of contiguous elements as torch.sum takes it along the innermost dimension: four groups
/// of lanes (of one element where there are fewer than a vector's), then the lanes in order after
/// the elements that do not fill a vector.
template <typename T>
T torch_sum(const T* x, std::int64_t n) {
  const std::int64_t width = n < kLanes<T> ? 1 : kLanes<T>;
  const auto n_lanes = static_cast<std::size_t>(width);
  const std::int64_t n_vectors = n / width;
  CascadeSum<T> cascade(4 * n_lanes, n_vectors / 4);
  for (std::int64_t i = 0; i < n_vectors / 4; ++i) cascade.add(x + i * 4 * width);
  const T* const groups = cascade.total();
  std::array<T, kLanes<T>> lanes{};
  for (std::size_t k = 0; k < n_lanes; ++k) {
    lanes[k] = groups[k];
    for (std::int64_t v = n_vectors / 4 * 4; v < n_vectors; ++v) {
      lanes[k] += x[v * width + static_cast<std::int64_t>(k)];
    }
    for (std::size_t group = 1; group < 4; ++group) lanes[k] += groups[group * n_lanes + k];
  }
  T sum{0};
  for (std::int64_t i = n_vectors * width; i < n; ++i) sum += x[i];
  for (std::size_t k = 0; k < n_lanes; ++k) sum += lanes[k];
  return sum;
}

template <typename T>
void normalize_column(T* x, std::int64_t n, std::int64_t stride, T epsilon) {
  const T norm = column_norm(x, n, stride) + epsilon;
  for (std::int64_t i = 0; i < n; ++i) x[i * stride] /= norm;
}

/// At most two columns.
template <typename T>
void gram_schmidt(T* matrix, std::int64_t n, std::int64_t r, T epsilon) {
  normalize_column(matrix, n, r, epsilon);
  if (r == 1) return;
  std::vector<T> products(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    products[static_cast<std::size_t>(i)] = matrix[2 * i] * matrix[2 * i + 1];
  }
  const T projection = torch_sum(products.data(), n);
  for (std::int64_t i = 0; i < n; ++i) matrix[2 * i + 1] -= projection * matrix[2 * i];
  normalize_column(matrix + 1, n, r, epsilon);
}

// ---- Householder

/// Makes row `j` and below of column `j` a reflector v with v[j] = 1; returns its tau. The entry
/// that remains of the column is of no use here.
template <typename T>
T make_reflector(const Strided<T>& a, std::int64_t n, std::int64_t j) {
  const T below = strided_norm(&a.at(j, j) + a.row, n - j - 1, a.row);
  const T alpha = a.at(j, j);
  a.at(j, j) = T{1};
  if (below == T{0}) return T{0};
  const T beta = -std::copysign(std::hypot(alpha, below), alpha);
  const T scale = T{1} / (alpha - beta);
  for (std::int64_t i = j + 1; i < n; ++i) a.at(i, j) *= scale;
  return (beta - alpha) / beta;
}

/// A reflection I - tau v v': v is column `j` of a matrix, from row j on.
template <typename T>
struct Reflection {
  Strided<T> v;
  std::int64_t n = 0;  ///< Rows.
  std::int64_t j = 0;
  T tau{0};

  /// Applies it to one column of `target`.
  void apply(const Strided<T>& target, std::int64_t column) const {
    T dot{0};
    for (std::int64_t i = j; i < n; ++i) dot += v.at(i, j) * target.at(i, column);
    for (std::int64_t i = j; i < n; ++i) target.at(i, column) -= tau * dot * v.at(i, j);
  }
};

template <typename T>
void householder(T* matrix, std::int64_t n, std::int64_t r) {
  std::vector<T> reflectors(matrix, matrix + n * r);
  std::vector<Reflection<T>> reflections;
  const Strided<T> v{reflectors.data(), r, 1};
  for (std::int64_t j = 0; j < r; ++j) {
    reflections.push_back({v, n, j, make_reflector(v, n, j)});
    for (std::int64_t c = j + 1; c < r; ++c) reflections.back().apply(v, c);
  }
  const Strided<T> q{matrix, r, 1};
  std::fill(matrix, matrix + n * r, T{0});
  for (std::int64_t j = 0; j < r; ++j) q.at(j, j) = T{1};
  for (std::int64_t j = r; j-- > 0;) {
    for (std::int64_t c = j; c < r; ++c) reflections[static_cast<std::size_t>(j)].apply(q, c);
  }
}

template <typename T>
void orthogonalize_stack(const Tensor& matrices, double epsilon) {
  const std::int64_t n = matrices.size(1);
  const std::int64_t r = matrices.size(2);
  for (std::int64_t s = 0; s < matrices.size(0); ++s) {
    T* const matrix = matrices.write<T>() + s * n * r;
    if (r <= 2) {
      gram_schmidt(matrix, n, r, static_cast<T>(epsilon));
    } else {
      householder(matrix, n, r);
    }
  }
}

}  // namespace

void multiply(const Tensor& out, const Tensor& a, const Tensor& b, StackProduct product) {
  if (out.dtype() == DType::kF32) return multiply_stack<float>(out, a, b, product);
  multiply_stack<double>(out, a, b, product);
}

void orthogonalize(const Tensor& matrices, double epsilon) {
  LOCKSTEP_CHECK(
      matrices.shape().n_dims() == 3 && matrices.size(2) <= matrices.size(1),
      fmt::format(
          "only a stack of matrices with no more columns than rows can be orthogonalized, not {}",
          matrices.text()));
  LOCKSTEP_CHECK(matrices.size(2) > 0,
                 fmt::format("{} has no columns to orthogonalize", matrices.text()));
  if (matrices.dtype() == DType::kF32) return orthogonalize_stack<float>(matrices, epsilon);
  orthogonalize_stack<double>(matrices, epsilon);
}

}  // namespace lockstep
