// Storage and tensors: counted handles to pooled, 64-byte aligned memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/base/call_site.h"
#include "lockstep/base/intrusive.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/runtime.h"
#include "lockstep/tensor/shape.h"

namespace lockstep {

/// Where the values of a storage come from, as far as ExchangeWatch (in_flight.h) asks.
struct Origin {
  static constexpr std::uint32_t kGraph = 1;  ///< An operation that a graph records computed it.
  static constexpr std::uint32_t kLeaf = 2;  ///< A parameter's: never a graph's, whatever views it.
  static constexpr std::uint32_t kCopied = 4;  ///< A clone of what a graph computed.
  static constexpr std::uint32_t kTaken = 8;   ///< A pointer to it may have been kept.
  static constexpr std::uint32_t kFromGraph = kGraph | kCopied;
  static constexpr std::uint32_t kOwn = 15;  ///< All of these.
  // The rest is ExchangeWatch's: the window that these bits are of, and one bit per exchange of it for
  // what it returned, and for what was computed from that.
  static constexpr std::uint32_t kFirstWindow = 4;
  static constexpr std::uint32_t kWindowMask = 4095;
  static constexpr std::uint32_t kSlots = 8;
  static constexpr std::uint32_t kSlotMask = (1U << kSlots) - 1U;
  static constexpr std::uint32_t kFirstDirect = 16;
  static constexpr std::uint32_t kFirstDerived = kFirstDirect + kSlots;

  static std::uint32_t window(std::uint32_t origin) { return origin >> kFirstWindow & kWindowMask; }

  static std::uint32_t direct(std::uint32_t origin) { return origin >> kFirstDirect & kSlotMask; }

  static std::uint32_t derived(std::uint32_t origin) { return origin >> kFirstDerived; }
};

/// A block of pooled bytes that tensors view. Header and data are one pooled block, unless the
/// runtime has an accelerator, which then keeps the data.
class Storage final : public Counted {  // NOLINT(cppcoreguidelines-virtual-class-destructor)
 public:
  static Ref<Storage> make(Runtime& runtime, std::int64_t n_bytes);

  Runtime& runtime() const { return *runtime_; }

  /// For callers that may keep the pointer: from now on the bytes change unseen.
  std::byte* data() {
    content_ = kEscaped;
    origin_ |= Origin::kTaken;
    return data_;
  }

  const std::byte* bytes() const { return data_; }

  /// For one operation that writes and forgets the pointer.
  std::byte* written() {
    // A name becomes 0, everything else kEscaped, in one instruction.
    content_ = static_cast<std::uint64_t>(static_cast<std::int64_t>(content_) >> 63U);
    return data_;
  }

  std::int64_t n_bytes() const { return n_bytes_; }

  // -- what is in it, as far as that is known (contents.h). Equal names stand for equal bytes. A
  //    writing operation takes the name away; a storage whose pointer may be kept, or that is
  //    written while it is lent, never has one again.
  static constexpr std::uint64_t kLent = std::uint64_t{1} << 63U;  ///< Names are smaller.
  static constexpr std::uint64_t kEscaped = ~std::uint64_t{0};

  static bool is_named(std::uint64_t content) { return content < kLent; }

  /// The name of a content of which this storage holds the bytes from content_offset() on; 0 = not
  /// known, kLent and above: not to be known.
  std::uint64_t content() const { return content_; }

  std::int64_t content_offset() const { return content_offset_; }

  /// The bytes are those of `content` from `offset` on. Requires: nothing else can write to them.
  void set_content(std::uint64_t content, std::int64_t offset) {
    if (!is_named(content_)) return;
    content_ = content;
    content_offset_ = offset;
  }

  /// For a transfer which reports, once it has been waited for, what it has left. `loan` is unique.
  std::byte* lend(std::uint64_t loan) {
    content_ = is_named(content_) ? kLent | loan : kEscaped;
    return data_;
  }

  /// The transfer has been waited for and left `content` (0: not known).
  void take_back(std::uint64_t loan, std::uint64_t content) {
    if (content_ != (kLent | loan)) return;  // Written meanwhile.
    content_ = content;
    content_offset_ = 0;
  }

  /// Grows with each write through a tensor operation; saved values compare it before use.
  std::uint32_t version() const { return version_; }

  void bump_version() { ++version_; }

  /// Bits of Origin.
  std::uint32_t origin() const { return origin_; }

  void set_origin(std::uint32_t bits) { origin_ = bits; }

  void add_origin(std::uint32_t bits) { origin_ |= bits; }

 private:
  Storage(Runtime& runtime, std::byte* data, std::int64_t n_bytes)
      : runtime_(&runtime), data_(data), n_bytes_(n_bytes) {}

  ~Storage() override = default;
  static Ref<Storage> make_beside(Runtime& runtime, std::int64_t n_bytes);
  void destroy() override;
  void end_unknown() const;

  Runtime* runtime_;
  std::byte* data_;
  std::int64_t n_bytes_;
  std::uint64_t content_ = 0;
  std::int64_t content_offset_ = 0;
  std::uint32_t version_ = 0;
  std::uint32_t origin_ = 0;
};

/// A contiguous row-major view of a storage: the value type of all numeric code. Copies share
/// memory; `clone` makes new memory. Default-constructed = undefined, like a gradient that does not
/// exist.
///
/// Shapes: up to four dimensions, row major.
/// Errors: broken contracts (wrong dtype, shape out of range) throw ContractViolation.
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

  /// Requires: defined(), as all operations do.
  Runtime& runtime() const {
    LOCKSTEP_CHECK(
        storage_,
        "an undefined tensor has no elements: a gradient is undefined before the first backward");
    return storage_->runtime();
  }

  const Ref<Storage>& storage() const { return storage_; }

  /// This tensor, taken out of the graph on purpose: what becomes of the values is not the graph's
  /// affair.
  Tensor detached() const {
    Tensor same = *this;
    same.detached_ = true;
    return same;
  }

  bool is_detached() const { return detached_; }

  const Shape& shape() const { return shape_; }

  std::int64_t size(std::size_t dim) const { return shape_[dim]; }

  std::int64_t n_elems() const { return n_elems_; }

  std::int64_t n_bytes() const { return n_elems_ * size_of(dtype_); }

  DType dtype() const { return dtype_; }

  Device device() const { return Device::kCpu; }

  std::int64_t offset_bytes() const { return offset_bytes_; }

  /// For host code: work queued on a device has ended. A holder of this pointer can write at any
  /// time, so the tensor's contents are read again each time they are asked for.
  void* raw() const {
    runtime().settle();
    return device_raw();
  }

  /// For the device's own kernels, which run after what was queued before them.
  void* device_raw() const { return storage_->data() + offset_bytes_; }

  template <typename T>
  T* data() const {
    check_dtype<T>();
    return static_cast<T*>(raw());
  }

  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(n_elems_)};
  }

  /// To be read.
  const void* read_raw() const {
    runtime().settle();
    return address();
  }

  template <typename T>
  const T* read() const {
    check_dtype<T>();
    return static_cast<const T*>(read_raw());
  }

  template <typename T>
  std::span<const T> read_span() const {
    return {read<T>(), static_cast<std::size_t>(n_elems_)};
  }

  /// For an operation that writes before anything else runs, and keeps no pointer.
  void* write_raw() const {
    runtime().settle();
    return storage_->written() + offset_bytes_;
  }

  template <typename T>
  T* write() const {
    check_dtype<T>();
    return static_cast<T*>(write_raw());
  }

  template <typename T>
  std::span<T> write_span() const {
    return {write<T>(), static_cast<std::size_t>(n_elems_)};
  }

  /// Where the elements lie, not to be looked at.
  const std::byte* address() const { return storage_->bytes() + offset_bytes_; }

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

  std::string text() const;  ///< "f32 [2, 3]".

  bool shares_memory_with(const Tensor& other) const { return storage_ == other.storage_; }

  /// The same storage from the same byte on.
  bool is_alias_of(const Tensor& other) const {
    return shares_memory_with(other) && offset_bytes() == other.offset_bytes();
  }

 private:
  Tensor(Ref<Storage> storage, std::int64_t offset_bytes, const Shape& shape, DType dtype);

  std::string complaint_about(DType asked) const;

  template <typename T>
  void check_dtype() const {
    LOCKSTEP_CHECK(dtype_ == DTypeOf<T>::kValue, complaint_about(DTypeOf<T>::kValue));
  }

  Ref<Storage> storage_;
  std::int64_t offset_bytes_ = 0;
  std::int64_t n_elems_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
  bool detached_ = false;
};

}  // namespace lockstep
