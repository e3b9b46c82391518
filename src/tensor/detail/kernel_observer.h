// One call of an operation as observers see it. What is reported to them is read off the types of the
// operation's parameters, so each operand's direction is written once: in kernels.h.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/tensor/detail/device_kernels.h"
#include "lockstep/tensor/detail/kernel_options.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// What an operation does to an operand.
enum class Direction : std::uint8_t {
  kRead,
  kWritten,  ///< Whatever was there before.
  kUpdated,  ///< Read and written, at least under some options.
};

/// A tensor, or a list of them in which some may be undefined.
struct KernelOperand {
  std::span<const Tensor> tensors() const { return {first, n}; }

  bool is_written() const { return direction != Direction::kRead; }

  const Tensor* first = nullptr;
  std::uint32_t n = 0;
  Direction direction = Direction::kRead;
};

/// What Kernels::reduce works on: memory that belongs to transfers, not tensors.
struct RawReduction {
  std::span<void* const> outputs;
  std::span<const void* const> inputs;
  std::int64_t count = 0;  ///< Elements of each.
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
};

struct KernelCall {
  KernelOp op{};
  std::span<const KernelOperand> operands = {};  ///< In the order of the parameters.
  std::span<const double> numbers = {};          ///< Parameters of this type, in the same order.
  const RawReduction* raw = nullptr;             ///< Of `reduce`; such a call has no operands.
};

/// The rest of a call: observers further in, then the operation itself.
class KernelRun {
 public:
  template <typename F>
  explicit KernelRun(F& run)
      : context_(&run), run_([](void* context) { (*static_cast<F*>(context))(); }) {}

  void operator()() const { run_(context_); }

 private:
  void* context_;
  void (*run_)(void*);
};

/// Stands around every operation of the Kernels that it observes.
///
/// around() may be entered again before it has returned: an operation may let other ranks run, and an
/// observer may compute with tensors itself. So what it needs afterwards is a local variable.
class KernelObserver {
 public:
  KernelObserver() = default;
  virtual ~KernelObserver() = default;
  KernelObserver(const KernelObserver&) = delete;
  KernelObserver& operator=(const KernelObserver&) = delete;
  KernelObserver(KernelObserver&&) = delete;
  KernelObserver& operator=(KernelObserver&&) = delete;

  /// Calls `run` once, and may throw before or afterwards.
  virtual void around(const KernelCall& call, KernelRun run) = 0;
};

/// One observer around another.
class NestedObservers final : public KernelObserver {
 public:
  /// Requires: both outlive it.
  NestedObservers(KernelObserver& outer, KernelObserver& inner) : outer_(&outer), inner_(&inner) {}

  void around(const KernelCall& call, KernelRun run) override {
    auto rest = [&] { inner_->around(call, run); };
    outer_->around(call, KernelRun(rest));
  }

 private:
  KernelObserver* outer_;
  KernelObserver* inner_;
};

namespace detail {

/// A parameter that is a tensor. As cheap as a reference to it.
template <Direction kDirection>
class OperandOf {
 public:
  // Tensors are passed as they are.  NOLINTNEXTLINE(google-explicit-constructor)
  OperandOf(const Tensor& tensor) : tensor_(&tensor) {}

  operator const Tensor&() const { return *tensor_; }  // NOLINT(google-explicit-constructor)

  KernelOperand as_operand() const { return {tensor_, 1, kDirection}; }

 private:
  const Tensor* tensor_;
};

/// A parameter that is a list of tensors.
template <Direction kDirection>
class OperandsOf {
 public:
  OperandsOf() = default;

  // NOLINTBEGIN(google-explicit-constructor): wherever a list is expected.
  template <typename List>

  requires std::convertible_to<const List&, std::span<const Tensor>> OperandsOf(const List& list)
      : tensors_(list) {}

  // NOLINTEND(google-explicit-constructor)

  operator std::span<const Tensor>() const {  // NOLINT(google-explicit-constructor)
    return tensors_;
  }

  KernelOperand as_operand() const {
    return {tensors_.data(), static_cast<std::uint32_t>(tensors_.size()), kDirection};
  }

 private:
  std::span<const Tensor> tensors_;
};

template <typename T>
concept IsOperand = requires(const T& parameter) {
  { parameter.as_operand() } -> std::same_as<KernelOperand>;
};

/// How an argument is handed on: options by reference, everything else in registers.
template <typename T>
using Passed = std::conditional_t<IsOperand<T> || std::is_arithmetic_v<T>, T, const T&>;

/// What observers get of a call with these arguments.
template <typename... Args>
struct Reported {
  [[gnu::always_inline]] explicit Reported(const Args&... args) {
    KernelOperand* operand = operands.data();
    double* number = numbers.data();
    const auto take = [&](const auto& arg) {
      using Arg = std::remove_cvref_t<decltype(arg)>;
      if constexpr (IsOperand<Arg>) *operand++ = arg.as_operand();
      if constexpr (std::is_same_v<Arg, double>) *number++ = arg;
    };
    (take(args), ...);
  }

  std::array<KernelOperand, (std::size_t{IsOperand<Args>} + ... + 0)> operands;
  std::array<double, (std::size_t{std::is_same_v<Args, double>} + ... + 0)> numbers;
};

}  // namespace detail

}  // namespace lockstep
