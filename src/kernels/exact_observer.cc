#include "lockstep/kernels/exact_observer.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <string>
#include <vector>

#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep {

namespace {

[[noreturn]] void fail_inexact(KernelOp op) {
  throw InexactOperation("operation '" + std::string(name_of(op)) +
                         "' rounded; exact mode promises it does not");
}

/// Runs one operation with the FPU watching. The compiler does not see what `run` calls, so it cannot
/// move arithmetic past the flag's clearing and testing.
void watch(KernelOp op, KernelRun run) {
  std::feclearexcept(FE_INEXACT);
  run();
  if (std::fetestexcept(FE_INEXACT) != 0) fail_inexact(op);
}

/// 16-bit floats are rounded by integer arithmetic, which raises no flag: results are checked by
/// value.
bool same_value(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::vector<double> widened(const void* data, std::int64_t n_elems, DType dtype) {
  std::vector<double> values;
  detail::for_any(dtype, [&](auto tag) {
    const auto* const x = static_cast<const decltype(tag)*>(data);
    for (std::int64_t i = 0; i < n_elems; ++i) {
      values.push_back(static_cast<double>(detail::load(x[i])));
    }
  });
  return values;
}

void expect_values(KernelOp op, const std::vector<double>& wanted, const void* data, DType dtype) {
  const std::vector<double> got = widened(data, std::ssize(wanted), dtype);
  if (!std::equal(got.begin(), got.end(), wanted.begin(), same_value)) fail_inexact(op);
}

void watch_fill(const KernelCall& call, KernelRun run) {
  const Tensor& out = *call.operands[0].first;
  watch(call.op, run);
  if (!is_narrow(out.dtype()) || out.n_elems() == 0) return;
  if (!same_value(out.at(0), call.numbers[0])) fail_inexact(call.op);
}

void watch_copy(const KernelCall& call, KernelRun run) {
  const Tensor& out = *call.operands[0].first;
  const Tensor& in = *call.operands[1].first;
  watch(call.op, run);
  if (!is_narrow(out.dtype()) || out.dtype() == in.dtype()) return;
  expect_values(
      call.op, widened(in.read_raw(), in.n_elems(), in.dtype()), out.read_raw(), out.dtype());
}

// The reciprocal of a world size such as 3 rounds, and yet grad * (1 / 3) is often exact because
// the gradient is a multiple of 3: what counts is whether the quotient times the divisor is the
// gradient.
void watch_average(const KernelCall& call, KernelRun run) {
  const Tensor& out = *call.operands[0].first;
  const Tensor& grad = *call.operands[1].first;
  const double divisor = call.numbers[0];
  const Tensor before = out.address() == grad.address() ? grad.clone() : grad;
  run();
  bool exact = true;
  detail::for_any(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto* const o = static_cast<const T*>(out.read_raw());
    const auto* const g = static_cast<const T*>(before.read_raw());
    for (std::int64_t i = 0; i < out.n_elems(); ++i) {
      const auto quotient = static_cast<double>(detail::load(o[i]));
      exact &= std::fma(quotient, divisor, -static_cast<double>(detail::load(g[i]))) == 0.0;
    }
  });
  if (!exact) fail_inexact(call.op);
}

/// What a sum or product of 16-bit floats is without their rounding. The caller watches the FPU.
std::vector<double> wide_reduction(const RawReduction& raw) {
  std::vector<double> result = widened(raw.inputs[0], raw.count, raw.dtype);
  for (const void* input : raw.inputs.subspan(1)) {
    const std::vector<double> next = widened(input, raw.count, raw.dtype);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = raw.op == ReduceOp::kProduct ? result[i] * next[i] : result[i] + next[i];
    }
  }
  if (raw.op == ReduceOp::kAvg) {
    for (double& value : result) value /= static_cast<double>(raw.inputs.size());
  }
  return result;
}

void watch_reduce(const KernelCall& call, KernelRun run) {
  const RawReduction& raw = *call.raw;
  const bool arithmetic = raw.op != ReduceOp::kMin && raw.op != ReduceOp::kMax;
  if (!is_narrow(raw.dtype) || !arithmetic) return watch(call.op, run);
  std::vector<double> wanted;
  auto reduce_wide = [&] { wanted = wide_reduction(raw); };
  watch(call.op, KernelRun(reduce_wide));
  run();
  expect_values(call.op, wanted, raw.outputs[0], raw.dtype);
}

/// Those that the flag alone does not judge. Apart from the others, whose frames would grow.
[[gnu::noinline]] void watch_by_value(const KernelCall& call, KernelRun run) {
  switch (call.op) {
    case kernel_op("fill"):
      return watch_fill(call, run);
    case kernel_op("copy"):
      return watch_copy(call, run);
    case kernel_op("average_into_bucket"):
      return watch_average(call, run);
    default:
      return watch_reduce(call, run);
  }
}

}  // namespace

void ExactObserver::around(const KernelCall& call, KernelRun run) {
  switch (call.op) {
    case kernel_op("round_to_grid"):  // The one declared rounding.
      return run();
    case kernel_op("fill"):
    case kernel_op("copy"):
    case kernel_op("average_into_bucket"):
    case kernel_op("reduce"):
      return watch_by_value(call, run);
    default:
      return watch(call.op, run);
  }
}

}  // namespace lockstep
