// Every operation of Kernels on small operands, for tests that walk all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tensor/kernels.h"

namespace lockstep::testing {

/// What an operand is filled with.
enum class Content : std::uint8_t {
  kNumbers,   ///< Of both signs and near one.
  kPositive,  ///< From one on.
  kIndices,   ///< i64, below `limit`.
};

struct OperandSpec {
  Shape shape;
  Content content = Content::kNumbers;
  std::int64_t limit = 0;
};

using OperandList = std::vector<Tensor>;

/// One operation under some options. An operation has several where options decide what it reads.
struct OperationCase {
  /// `run` passes every operand on to the operation; what it returns is part of the outcome.
  template <typename F>
  OperationCase(KernelOp which, std::vector<OperandSpec> specs, F f)
      : op(which), operands(std::move(specs)) {
    if constexpr (std::is_void_v<std::invoke_result_t<F, Kernels&, const OperandList&>>) {
      run = [f](Kernels& kernels, const OperandList& list) {
        f(kernels, list);
        return 0.0;
      };
    } else {
      run = std::move(f);
    }
  }

  KernelOp op;
  std::vector<OperandSpec> operands;
  std::function<double(Kernels&, const OperandList&)> run;
};

/// At least one case for each operation.
std::vector<OperationCase> operation_cases();

/// Operands with their first contents; `other`, if it is one of them, with other contents.
OperandList make_operands(Runtime& runtime, const OperationCase& c, std::size_t other);

constexpr std::size_t kNone = ~std::size_t{0};

inline std::string text_of(KernelOp op, std::size_t operand) {
  return std::string(name_of(op)) + ", operand " + std::to_string(operand);
}

}  // namespace lockstep::testing
