// Storage and tensors: counted handles to pooled, 64-byte aligned memory.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/call_site.h"
#include "lockstep/base/intrusive.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/runtime.h"
#include "lockstep/tensor/shape.h"

namespace lockstep {

/// A block of pooled bytes that tensors view. Header and data are one pooled block, unless the
/// runtime has an accelerator, which then keeps the data.
class Storage final : public Counted {  // NOLINT(cppcoreguidelines-virtual-class-destructor)
 public:
  static Ref<Storage> make(Runtime& runtime, std::int64_t n_bytes);

  Runtime& runtime() const { return *runtime_; }

  std::byte* data() const { return data_; }

  std::int64_t n_bytes() const { return n_bytes_; }

  /// Grows with each write through a tensor operation; saved values compare it before use.
  std::uint32_t version() const { return version_; }

  void bump_version() { ++version_; }

 private:
  Storage(Runtime& runtime, std::byte* data, std::int64_t n_bytes)
      : runtime_(&runtime), data_(data), n_bytes_(n_bytes) {}

  ~Storage() override = default;
  static Ref<Storage> make_beside(Runtime& runtime, std::int64_t n_bytes);
  void destroy() override;

  Runtime* runtime_;
  std::byte* data_;
  std::int64_t n_bytes_;
  std::uint32_t version_ = 0;
};

/// A contiguous row-major view of a storage: the value type of all numeric code. Copies share
/// memory; `clone` makes new memory. Default-constructed = undefined, like a gradient that does not
/// exist.
///
/// Shapes:  up to four dimensions, row major.
/// Errors:  broken contracts (wrong dtype, shape out of range) throw ContractViolation.
class Tensor {
 public:
  Tensor() = default;

  /// Contents unspecified.
  static Tensor empty(Runtime& runtime, const Shape& shape, DType dtype);

  static Tensor empty_like(const Tensor& tensor) {
    return empty(tensor.runtime(), tensor.shape(), tensor.dtype());
  }

  static Tensor zeros(Runtime& runtime, const Shape& shape, DType dtype);
  static Tensor full(Runtime& runtime, const Shape& shape, DType dtype, double value);
  /// Copies `values` (row major), converting to `dtype`. Requires: sizes agree.
  static Tensor of(Runtime& runtime,
                   const Shape& shape,
                   DType dtype,
                   std::span<const double> values);

  bool defined() const { return static_cast<bool>(storage_); }

  Runtime& runtime() const { return storage_->runtime(); }

  const Ref<Storage>& storage() const { return storage_; }

  const Shape& shape() const { return shape_; }

  std::int64_t size(std::size_t dim) const { return shape_[dim]; }

  std::int64_t n_elems() const { return n_elems_; }

  std::int64_t n_bytes() const { return n_elems_ * size_of(dtype_); }

  DType dtype() const { return dtype_; }

  Device device() const { return Device::kCpu; }

  std::int64_t offset_bytes() const { return offset_bytes_; }

  /// For host code: work queued on a device has ended.
  void* raw() const {
    runtime().settle();
    return device_raw();
  }

  /// For the device's own kernels, which run behind what was queued before them.
  void* device_raw() const { return storage_->data() + offset_bytes_; }

  template <typename T>
  T* data() const {
    LOCKSTEP_CHECK(dtype_ == DTypeOf<T>::kValue, "the element type asked for is not the tensor's");
    return static_cast<T*>(raw());
  }

  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(n_elems_)};
  }

  /// A view of the same elements under another shape. Requires: equal element counts.
  Tensor reshape(const Shape& shape) const;
  /// `n` elements from flat position `first`, as a tensor of `shape`. Requires: inside the tensor.
  Tensor slice(std::int64_t first, const Shape& shape) const;
  /// Rows [first, first + n) of the outermost dimension, sharing memory.
  Tensor rows(std::int64_t first, std::int64_t n) const;
  Tensor clone() const;
  /// This tensor's values in another dtype (round to nearest even); itself when equal.
  Tensor to(DType dtype) const;

  /// One element as a double (tests, reports). The caller's place is named if a transfer owns it.
  double at(std::int64_t flat_index, const CallSite& site = CallSite::here()) const;
  /// Requires: exactly one element.
  double item(const CallSite& site = CallSite::here()) const;

  bool shares_memory_with(const Tensor& other) const { return storage_ == other.storage_; }

  /// The same storage from the same byte on.
  bool is_alias_of(const Tensor& other) const {
    return shares_memory_with(other) && offset_bytes() == other.offset_bytes();
  }

 private:
  Tensor(Ref<Storage> storage, std::int64_t offset_bytes, const Shape& shape, DType dtype);

  Ref<Storage> storage_;
  std::int64_t offset_bytes_ = 0;
  std::int64_t n_elems_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
};

}  // namespace lockstep
