// Where elements go.
#include <algorithm>

#include "lockstep/gpu/cuda/detail/operands.cuh"
#include "lockstep/gpu/cuda/ops/movements.cuh"

namespace lockstep::cuda {

namespace {

std::int64_t table_width(const Tensor& table, const Tensor& rows, const Tensor& indices) {
  LOCKSTEP_CHECK(table.shape().n_dims() == 2, "a table has shape (rows, width)");
  LOCKSTEP_CHECK(rows.n_elems() == indices.n_elems() * table.size(1), "one row per index");
  return table.size(1);
}

Places places_of(std::int64_t height, std::int64_t width, const Kernels::Window& w) {
  LOCKSTEP_CHECK(w.stride > 0 && w.padding >= 0 && w.height > 0 && w.width > 0,
                 "a window has a size, a stride and no negative padding");
  const std::int64_t down = height + 2 * w.padding - w.height;
  const std::int64_t right = width + 2 * w.padding - w.width;
  LOCKSTEP_CHECK(down >= 0 && right >= 0, "the window is larger than the padded image");
  return {.height = height,
          .width = width,
          .window_height = w.height,
          .window_width = w.width,
          .stride = w.stride,
          .padding = w.padding,
          .n_down = down / w.stride + 1,
          .n_right = right / w.stride + 1};
}

Places columns_of(const Tensor& image, const Tensor& columns, const Kernels::Window& window) {
  LOCKSTEP_CHECK(image.shape().n_dims() == 3, "an image has shape (C, H, W)");
  const Places places = places_of(image.size(1), image.size(2), window);
  LOCKSTEP_CHECK(columns.n_elems() == image.size(0) * places.n_taps() * places.n(),
                 "columns hold the window's contents at every place");
  return places;
}

Places pool_of(const Tensor& images, const Tensor& results, const Kernels::Window& window) {
  const Shape& s = images.shape();
  LOCKSTEP_CHECK(s.n_dims() == 4, "pooling takes (N, C, H, W)");
  LOCKSTEP_CHECK(2 * window.padding <= std::min(window.height, window.width),
                 "padding is at most half of the pooling window");
  const Places places = places_of(s[2], s[3], window);
  LOCKSTEP_CHECK(results.n_elems() == s[0] * s[1] * places.n(), "one result per window");
  return places;
}

}  // namespace

void CudaKernels::gather_rows(const Tensor& out, const Tensor& table, const Tensor& indices) {
  if (is_narrow(out.dtype())) return host_->gather_rows(out, table, indices);
  const std::int64_t width = table_width(table, out, indices);
  for_float(table.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(out.n_elems(),
                   GatherElement<T>{at<T>(out),
                                    at<T>(table),
                                    at<std::int64_t>(indices),
                                    table.size(0),
                                    width,
                                    executor_->fault()});
  });
}

void CudaKernels::scatter_add_rows(const Tensor& table,
                                   const Tensor& rows,
                                   const Tensor& indices,
                                   std::int64_t skipped) {
  if (is_narrow(table.dtype())) return host_->scatter_add_rows(table, rows, indices, skipped);
  const std::int64_t width = table_width(table, rows, indices);
  for_float(table.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(width,
                   ScatterColumn<T>{at<T>(table),
                                    at<T>(rows),
                                    at<std::int64_t>(indices),
                                    indices.n_elems(),
                                    table.size(0),
                                    width,
                                    skipped,
                                    executor_->fault()});
  });
}

void CudaKernels::swap_middle(const Tensor& out, const Tensor& in) {
  if (is_narrow(out.dtype())) return host_->swap_middle(out, in);
  const std::int64_t n = agreed_elems(out, in);
  const Shape& s = in.shape();
  LOCKSTEP_CHECK(s.n_dims() == 4, "swapping the middle takes four dimensions");
  for_float(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n, SwapMiddle<T>{at<T>(out), at<T>(in), s[1], s[2], s[3]});
  });
}

void CudaKernels::unfold(const Tensor& out, const Tensor& image, const Window& window) {
  if (is_narrow(out.dtype())) return host_->unfold(out, image, window);
  const Places places = columns_of(image, out, window);
  for_float(image.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(out.n_elems(), UnfoldElement<T>{at<T>(out), at<T>(image), places});
  });
}

void CudaKernels::fold(const Tensor& image, const Tensor& columns, const Window& window) {
  if (is_narrow(image.dtype())) return host_->fold(image, columns, window);
  const Places places = columns_of(image, columns, window);
  for_float(image.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(image.n_elems(), FoldElement<T>{at<T>(image), at<T>(columns), places});
  });
}

void CudaKernels::max_pool(const Tensor& out,
                           const Tensor& positions,
                           const Tensor& in,
                           const Window& window) {
  if (is_narrow(out.dtype())) return host_->max_pool(out, positions, in, window);
  const std::int64_t n = agreed_elems(out, positions);
  const Places places = pool_of(in, out, window);
  for_float(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n, MaxPoolWindow<T>{at<T>(out), at<std::int64_t>(positions), at<T>(in), places});
  });
}

void CudaKernels::max_pool_backward(const Tensor& out,
                                    const Tensor& grad,
                                    const Tensor& positions) {
  if (is_narrow(grad.dtype())) return host_->max_pool_backward(out, grad, positions);
  agreed_elems(grad, positions);
  const bool planes = out.shape().n_dims() == 4 && grad.shape().n_dims() == 4 &&
                      out.size(0) == grad.size(0) && out.size(1) == grad.size(1);
  const std::int64_t n_planes = planes ? out.size(0) * out.size(1) : 1;
  if (n_planes == 0) return;
  for_float(grad.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n_planes,
                   MaxPoolSlopePlane<T>{at<T>(out),
                                        at<T>(grad),
                                        at<std::int64_t>(positions),
                                        grad.n_elems() / n_planes,
                                        out.n_elems() / n_planes,
                                        executor_->fault()});
  });
}

void CudaKernels::avg_pool(const Tensor& out, const Tensor& in, const Window& window) {
  if (is_narrow(out.dtype())) return host_->avg_pool(out, in, window);
  const Places places = pool_of(in, out, window);
  for_float(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(out.n_elems(), AvgPoolWindow<T>{at<T>(out), at<T>(in), places});
  });
}

void CudaKernels::avg_pool_backward(const Tensor& out, const Tensor& grad, const Window& window) {
  if (is_narrow(out.dtype())) return host_->avg_pool_backward(out, grad, window);
  const Places places = pool_of(out, grad, window);
  for_float(grad.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(out.n_elems(), AvgPoolSlopeElement<T>{at<T>(out), at<T>(grad), places});
  });
}

}  // namespace lockstep::cuda
