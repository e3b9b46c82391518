#include "lockstep/tensor/tensor.h"

#include <cstring>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "lockstep/tensor/contents.h"
#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

namespace {

constexpr std::size_t kHeaderBytes = 64;  // One cache line, so that data starts on the next.

std::size_t block_bytes(std::int64_t n_bytes) {
  return kHeaderBytes + static_cast<std::size_t>(n_bytes);
}

}  // namespace

Ref<Storage> Storage::make(Runtime& runtime, std::int64_t n_bytes) {
  static_assert(sizeof(Storage) <= kHeaderBytes);
  LOCKSTEP_CHECK(n_bytes >= 0,
                 fmt::format("a storage of {} bytes: a size is never negative", n_bytes));
  if (runtime.accelerator() != nullptr && n_bytes > 0) return make_beside(runtime, n_bytes);
  auto* const block = static_cast<std::byte*>(runtime.pool().allocate(block_bytes(n_bytes)));
  runtime.note_made();
  return Ref<Storage>(::new (block) Storage(runtime, block + kHeaderBytes, n_bytes));
}

Ref<Storage> Storage::make_beside(Runtime& runtime, std::int64_t n_bytes) {
  void* const data = runtime.accelerator()->allocate(static_cast<std::size_t>(n_bytes));
  void* const header = runtime.pool().allocate(kHeaderBytes);
  runtime.note_made();
  return Ref<Storage>(::new (header) Storage(runtime, static_cast<std::byte*>(data), n_bytes));
}

// Its memory will be reused. A transfer that still writes there does so unseen.
void Storage::end_unknown() const {
  Contents* const contents = runtime_->contents();
  const InFlight* const in_flight = runtime_->in_flight();
  if (contents == nullptr || in_flight == nullptr) return;
  if (in_flight->touched(data_, data_ + n_bytes_, true) != nullptr) contents->close();
}

void Storage::destroy() {
  if (!is_named(content_)) end_unknown();
  if (Origin::direct(origin_) != 0 && runtime_->exchanges() != nullptr) {
    runtime_->exchanges()->on_gone(*this);
  }
  Pool& pool = runtime_->pool();
  runtime_->note_gone();
  const bool beside = runtime_->accelerator() != nullptr && n_bytes_ > 0;
  if (beside) runtime_->accelerator()->release(data_, static_cast<std::size_t>(n_bytes_));
  const std::size_t bytes = beside ? kHeaderBytes : block_bytes(n_bytes_);
  Storage::~Storage();
  pool.release(this, bytes);
}

Tensor::Tensor(Ref<Storage> storage, std::int64_t offset_bytes, const Shape& shape, DType dtype)
    : storage_(std::move(storage)),
      offset_bytes_(offset_bytes),
      n_elems_(shape.n_elems()),
      shape_(shape),
      dtype_(dtype) {}

Tensor Tensor::empty(Runtime& runtime, const Shape& shape, DType dtype) {
  return {Storage::make(runtime, shape.n_elems() * size_of(dtype)), 0, shape, dtype};
}

Tensor Tensor::zeros(Runtime& runtime, const Shape& shape, DType dtype) {
  Tensor tensor = empty(runtime, shape, dtype);
  if (runtime.accelerator() != nullptr) {
    runtime.kernels().fill(tensor, 0.0);  // After what is queued, instead of waiting for it.
  } else {
    std::memset(tensor.write_raw(), 0, static_cast<std::size_t>(tensor.n_bytes()));
  }
  return tensor;
}

Tensor Tensor::full(Runtime& runtime, const Shape& shape, DType dtype, double value) {
  Tensor tensor = empty(runtime, shape, dtype);
  runtime.kernels().fill(tensor, value);
  return tensor;
}

Tensor Tensor::of(Runtime& runtime,
                  const Shape& shape,
                  DType dtype,
                  std::span<const double> values) {
  LOCKSTEP_CHECK(static_cast<std::size_t>(shape.n_elems()) == values.size(),
                 fmt::format("{} values for a tensor of {}, which has {} elements",
                             values.size(),
                             shape.text(),
                             shape.n_elems()));
  Tensor tensor = empty(runtime, shape, dtype);
  detail::for_any(dtype, [&](auto tag) {
    auto* out = static_cast<decltype(tag)*>(tensor.write_raw());
    for (const double value : values) *out++ = detail::store<decltype(tag)>(value);
  });
  return tensor;
}

Tensor Tensor::reshape(const Shape& shape) const {
  LOCKSTEP_CHECK(shape.n_elems() == n_elems_,
                 fmt::format("cannot reshape {}, which has {} elements, to {}, which has {}",
                             text(),
                             n_elems_,
                             shape.text(),
                             shape.n_elems()));
  return {storage_, offset_bytes_, shape, dtype_};
}

Tensor Tensor::slice(std::int64_t first, const Shape& shape) const {
  LOCKSTEP_CHECK(
      first >= 0 && first <= n_elems_ && shape.n_elems() <= n_elems_ - first,
      fmt::format(
          "a slice of {} elements from element {} on reaches over the end of {}, which has {}",
          shape.n_elems(),
          first,
          text(),
          n_elems_));
  return {storage_, offset_bytes_ + first * size_of(dtype_), shape, dtype_};
}

Tensor Tensor::rows(std::int64_t first, std::int64_t n) const {
  LOCKSTEP_CHECK(
      shape_.n_dims() > 0,
      fmt::format(
          "{} rows from row {} on of a scalar: only tensors with a dimension have rows", n, first));
  LOCKSTEP_CHECK(
      first >= 0 && n >= 0 && first <= shape_[0] && n <= shape_[0] - first,
      fmt::format("{} rows from row {} on of {}, which has {}", n, first, text(), shape_[0]));
  std::array<std::int64_t, Shape::kMaxDims> sizes{};
  std::int64_t row_elems = 1;
  for (std::size_t i = 0; i < shape_.n_dims(); ++i) {
    sizes[i] = shape_[i];
    if (i > 0) row_elems *= shape_[i];
  }
  sizes[0] = n;
  return slice(first * row_elems, Shape(std::span(sizes.data(), shape_.n_dims())));
}

Tensor Tensor::clone() const {
  Tensor copy = empty(runtime(), shape_, dtype_);
  runtime().kernels().copy(copy, *this);
  const bool from_graph = (storage_->origin() & Origin::kFromGraph) != 0 && !detached_;
  if (from_graph) copy.storage()->add_origin(Origin::kCopied);
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor converted = empty(runtime(), shape_, dtype);
  runtime().kernels().copy(converted, *this);
  return converted;
}

double Tensor::at(std::int64_t flat_index, const CallSite& site) const {
  LOCKSTEP_CHECK(flat_index >= 0 && flat_index < n_elems_,
                 fmt::format("element {} of {}, which has {}", flat_index, text(), n_elems_));
  if (InFlight* const in_flight = runtime().in_flight()) {
    const std::byte* const element = address() + flat_index * size_of(dtype_);
    in_flight->access(element, element + size_of(dtype_), {"element", false, site});
  }
  const std::uint32_t origin = storage_->origin();
  if (Origin::direct(origin) != 0 && runtime().exchanges() != nullptr) {
    runtime().exchanges()->on_read(origin);
  }
  return detail::for_any(dtype_, [&](auto tag) {
    return static_cast<double>(
        detail::load(static_cast<const decltype(tag)*>(read_raw())[flat_index]));
  });
}

double Tensor::item(const CallSite& site) const {
  LOCKSTEP_CHECK(n_elems_ == 1,
                 fmt::format("item() of {}: it is for tensors of one element", text()));
  return at(0, site);
}

std::string Tensor::text() const { return fmt::format("{} {}", name_of(dtype_), shape_.text()); }

std::string Tensor::complaint_about(DType asked) const {
  return fmt::format("the elements of {} cannot be read as {}", text(), name_of(asked));
}

}  // namespace lockstep
