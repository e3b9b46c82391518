// One rank's runtime with nothing around it: CPU kernels, and a host that offers no world.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/host.h"
#include "lockstep/tensor/cpu_kernels.h"
#include "lockstep/tensor/runtime.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::testing {

/// Time stands still, files and memo are refused.
class BareHost final : public Host {
 public:
  VirtualTime now() const override { return {}; }
  void sleep(Duration /*span*/) override {}
  void point(const Point& /*next*/) override {}
  void spend(Duration /*compute*/) override {}
  FileSystem& files() override { refuse(); }
  Memo& memo() override { refuse(); }
  std::optional<std::string> environment(std::string_view /*name*/) const override { return {}; }
  void log(std::string_view /*line*/) override {}

 private:
  [[noreturn]] static void refuse() { throw ContractViolation("a bare host has no files or memo"); }
};

/// `kExact` wraps the kernels so that an operation that rounds throws.
enum class Arithmetic : std::uint8_t { kPlain, kExact };

/// What a test needs to make tensors: `PlainRuntime rt; rt.tensor({2}, {1, 2})`.
class PlainRuntime {
 public:
  explicit PlainRuntime(Arithmetic arithmetic = Arithmetic::kPlain)
      : cpu_(make_cpu_kernels()),
        exact_(arithmetic == Arithmetic::kExact ? make_exact_kernels(*cpu_) : nullptr),
        runtime_(pool_, exact_ ? *exact_ : *cpu_, host_) {}

  Runtime& runtime() { return runtime_; }
  operator Runtime&() { return runtime_; }  // NOLINT(google-explicit-constructor)
  Pool& pool() { return pool_; }
  Kernels& kernels() { return runtime_.kernels(); }

  Tensor tensor(const Shape& shape, std::span<const double> values, DType dtype = DType::kF64) {
    return Tensor::of(runtime_, shape, dtype, values);
  }
  Tensor tensor(const Shape& shape, std::initializer_list<double> values,
                DType dtype = DType::kF64) {
    return tensor(shape, std::span(values.begin(), values.size()), dtype);
  }

 private:
  Pool pool_;
  BareHost host_;
  std::unique_ptr<Kernels> cpu_;
  std::unique_ptr<Kernels> exact_;
  Runtime runtime_;
};

inline std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) values.push_back(tensor.at(i));
  return values;
}

}  // namespace lockstep::testing
