// What each operation of Kernels does to its operands, found out from memory, and what it says about
// them. Nothing here repeats a direction: an operand is written if an operation changes it, and read if
// other contents make another outcome.
#include <cstring>
#include <gmock/gmock.h>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/watching_observer.h"
#include "lockstep/tensor/in_flight.h"

#include "tests/kernels/operation_cases.h"
#include "tests/support/test_runtime.h"

namespace lockstep::testing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

using Complaints = std::vector<std::string>;

/// A runtime with the kernels under test.
struct Bench {
  explicit Bench(std::unique_ptr<DeviceKernels> device) : kernels(std::move(device)) {}

  Pool pool;
  Kernels kernels;
  TestHost host;
  Runtime runtime{pool, kernels, host};
};

/// Writes down which direction was reported for the memory at each address.
class Listening final : public KernelObserver {
 public:
  void around(const KernelCall& call, KernelRun run) override {
    ops.push_back(call.op);
    for (const KernelOperand& operand : call.operands) {
      for (const Tensor& tensor : operand.tensors()) reported[tensor.address()] = operand.direction;
    }
    if (call.raw != nullptr) {
      for (const void* output : call.raw->outputs) reported[output] = Direction::kWritten;
      for (const void* input : call.raw->inputs) reported[input] = Direction::kRead;
    }
    run();
  }

  std::vector<KernelOp> ops;
  std::map<const void*, Direction> reported;
};

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const Tensor& tensor) {
  return {tensor.address(), tensor.address() + tensor.n_bytes()};
}

/// What one run of a case left.
struct Outcome {
  std::vector<KernelOp> ops;
  std::vector<std::optional<Direction>> reported;  // By operand.
  std::vector<Bytes> before;
  std::vector<Bytes> after;
  double returned = 0.0;

  bool changed(std::size_t operand) const { return before[operand] != after[operand]; }
};

Outcome outcome_of(Bench& bench, const OperationCase& c, std::size_t other) {
  const OperandList list = make_operands(bench.runtime, c, other);
  Outcome outcome;
  for (const Tensor& tensor : list) outcome.before.push_back(bytes_of(tensor));
  Listening listening;
  bench.kernels.observe(&listening);
  outcome.returned = c.run(bench.kernels, list);
  bench.kernels.observe(nullptr);
  outcome.ops = listening.ops;
  for (const Tensor& tensor : list) {
    outcome.after.push_back(bytes_of(tensor));
    const auto found = listening.reported.find(tensor.address());
    outcome.reported.push_back(found == listening.reported.end() ? std::nullopt
                                                                 : std::optional(found->second));
  }
  return outcome;
}

/// Whether other contents of `operand` had an effect that shows: contents that were only kept do not.
bool differs(const Outcome& a, const Outcome& b, std::size_t operand) {
  if (std::memcmp(&a.returned, &b.returned, sizeof a.returned) != 0) return true;
  for (std::size_t i = 0; i < a.after.size(); ++i) {
    const bool kept = i == operand && !a.changed(i) && !b.changed(i);
    if (!kept && a.after[i] != b.after[i]) return true;
  }
  return false;
}

/// What an operation did to one operand, over all its cases.
struct Truth {
  bool written = false;
  bool read = false;
};

using Truths = std::map<KernelOp, std::vector<Truth>>;

/// A poor choice of numbers could hide an effect in one case; none of an operation's may.
Truths truths_of(Bench& bench) {
  Truths truths;
  for (const OperationCase& c : operation_cases()) {
    std::vector<Truth>& truth = truths[c.op];
    truth.resize(c.operands.size());
    const Outcome first = outcome_of(bench, c, kNone);
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      truth[i].written |= first.changed(i);
      truth[i].read |= differs(first, outcome_of(bench, c, i), i);
    }
  }
  return truths;
}

/// Where what was reported is not what was done.
Complaints unreported(Bench& bench) {
  Complaints complaints;
  const Truths truths = truths_of(bench);
  for (const OperationCase& c : operation_cases()) {
    const Outcome outcome = outcome_of(bench, c, kNone);
    if (outcome.ops != std::vector{c.op}) {
      complaints.push_back(std::string(name_of(c.op)) + ": not reported once, by its name");
    }
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      const Truth& truth = truths.at(c.op)[i];
      const std::optional<Direction> reported = outcome.reported[i];
      const bool says_read = reported && *reported != Direction::kWritten;
      const bool says_written = reported && *reported != Direction::kRead;
      const auto complain = [&](const char* what) {
        complaints.push_back(text_of(c.op, i) + ": " + what);
      };
      if (truth.written && !says_written) complain("is written, and not reported");
      if (truth.read && !says_read) complain("is read, and not reported");
      if (!truth.written && says_written) complain("is said to be written, and never is");
      if (!truth.read && says_read) complain("is said to be read, and never is");
    }
  }
  return complaints;
}

struct Accesses final : InFlight::Listener {
  void on_touch(const InFlight::Loan& /*loan*/, const InFlight::Access& access) override {
    accesses.push_back(access);
  }

  std::vector<InFlight::Access> accesses;
};

/// What the watching observer reports when `operand` belongs to a transfer that writes it, or only
/// reads it.
std::vector<InFlight::Access> accesses_of(Bench& bench,
                                          const OperationCase& c,
                                          std::size_t operand,
                                          bool transfer_writes) {
  const OperandList list = make_operands(bench.runtime, c, kNone);
  Accesses listener;
  InFlight in_flight;
  in_flight.listen(&listener);
  const std::byte* const begin = list[operand].address();
  in_flight.lend({.begin = begin,
                  .end = begin + list[operand].n_bytes(),
                  .written = transfer_writes,
                  .work = 1});
  WatchingObserver watching;
  bench.runtime.set_in_flight(&in_flight);
  bench.kernels.observe(&watching);
  (void)c.run(bench.kernels, list);
  bench.kernels.observe(nullptr);
  bench.runtime.set_in_flight(nullptr);
  return listener.accesses;
}

/// Where the observer of memory in flight does not see what memory shows.
Complaints unwatched(Bench& bench) {
  Complaints complaints;
  const Truths truths = truths_of(bench);
  for (const OperationCase& c : operation_cases()) {
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      const Truth& truth = truths.at(c.op)[i];
      const auto seen = accesses_of(bench, c, i, true);
      const auto seen_written = accesses_of(bench, c, i, false);
      const bool right = seen.size() == 1 && seen[0].operation == name_of(c.op) &&
                         seen[0].writes == truth.written &&
                         seen_written.size() == (truth.written ? 1U : 0U);
      if (!right) complaints.push_back(text_of(c.op, i) + ": not seen as what it is");
    }
  }
  return complaints;
}

/// Transfers do that to the memory they own.
Complaints without_reduce(Complaints complaints) {
  std::erase_if(complaints, [](const std::string& text) { return text.starts_with("reduce,"); });
  return complaints;
}

TEST(DirectionsTest, EveryOperationReportsWhatItReadsAndWrites) {
  Bench bench(std::make_unique<detail::CpuKernels>());
  EXPECT_THAT(unreported(bench), IsEmpty());
}

TEST(DirectionsTest, EveryReadAndEveryWriteIsWatched) {
  Bench bench(std::make_unique<detail::CpuKernels>());
  EXPECT_THAT(without_reduce(unwatched(bench)), IsEmpty());
}

TEST(DirectionsTest, WhatTransfersDoToRawMemoryIsNotWatched) {
  Bench bench(std::make_unique<detail::CpuKernels>());
  for (const OperationCase& c : operation_cases()) {
    if (c.op != kernel_op("reduce")) continue;
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      EXPECT_THAT(accesses_of(bench, c, i, true), IsEmpty());
    }
  }
}

TEST(DirectionsTest, ObserversDoNotChangeResults) {
  Bench bench(std::make_unique<detail::CpuKernels>());
  for (const OperationCase& c : operation_cases()) {
    const OperandList plain = make_operands(bench.runtime, c, kNone);
    const double returned = c.run(bench.kernels, plain);
    const Outcome observed = outcome_of(bench, c, kNone);
    EXPECT_EQ(observed.returned, returned) << name_of(c.op);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(observed.after[i], bytes_of(plain[i])) << text_of(c.op, i);
    }
  }
}

/// Does more and less than its operations say.
class Meddling final : public detail::CpuKernels {
 public:
  /// Writes to what is said to be read.
  void add(const Tensor& out, const Tensor& a, const Tensor& b) override {
    CpuKernels::add(out, a, b);
    b.write<float>()[0] = 7.0F;
  }

  /// Reads what is said to be overwritten.
  void mul(const Tensor& out, const Tensor& a, const Tensor& b) override {
    const float before = out.read<float>()[0];
    CpuKernels::mul(out, a, b);
    out.write<float>()[0] += before;
  }

  /// Forgets to write.
  void relu(const Tensor& /*out*/, const Tensor& /*in*/) override {}

  /// Forgets to read.
  void sub(const Tensor& out, const Tensor& a, const Tensor& /*b*/) override {
    CpuKernels::copy(out, a);
  }
};

TEST(DirectionsTest, OperationsThatDoOtherThanTheySayAreNoticed) {
  Bench bench(std::make_unique<Meddling>());
  EXPECT_THAT(
      unreported(bench),
      ::testing::UnorderedElementsAre("add, operand 2: is written, and not reported",
                                      "mul, operand 0: is read, and not reported",
                                      "relu, operand 0: is said to be written, and never is",
                                      "relu, operand 1: is said to be read, and never is",
                                      "sub, operand 2: is said to be read, and never is"));
}

TEST(DirectionsTest, AWriteThatIsNotReportedIsNotWatchedAndNoticed) {
  Bench bench(std::make_unique<Meddling>());
  EXPECT_THAT(unwatched(bench), Contains("add, operand 2: not seen as what it is"));
}

}  // namespace
}  // namespace lockstep::testing
