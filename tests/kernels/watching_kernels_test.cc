// Which operand of which operation is read and which is written, as watching kernels tell it.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/tensor/in_flight.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;
using testing::values_of;

struct Accesses final : InFlight::Listener {
  void on_touch(const InFlight::Loan& /*loan*/, const InFlight::Access& access) override {
    accesses.push_back(access);
  }

  std::vector<InFlight::Access> accesses;
};

using OperandList = std::vector<Tensor>;

/// One operation on operands of the given shapes; roles: 'w' written, 'r' read, 'i' read indices.
struct Case {
  std::string name;
  std::string roles;
  std::vector<Shape> shapes;
  std::function<void(Kernels&, const OperandList&)> run;
};

const Shape kSquare{2, 2};
const Shape kRow{2};
const Shape kOne{1};

std::vector<Case> element_wise_cases() {
  const std::vector<Shape> two = {kSquare, kSquare};
  const std::vector<Shape> three = {kSquare, kSquare, kSquare};
  return {
      {"fill", "w", {kSquare}, [](Kernels& k, const OperandList& t) { k.fill(t[0], 2.0); }},
      {"copy", "wr", two, [](Kernels& k, const OperandList& t) { k.copy(t[0], t[1]); }},
      {"add", "wrr", three, [](Kernels& k, const OperandList& t) { k.add(t[0], t[1], t[2]); }},
      {"sub", "wrr", three, [](Kernels& k, const OperandList& t) { k.sub(t[0], t[1], t[2]); }},
      {"mul", "wrr", three, [](Kernels& k, const OperandList& t) { k.mul(t[0], t[1], t[2]); }},
      {"div", "wrr", three, [](Kernels& k, const OperandList& t) { k.div(t[0], t[1], t[2]); }},
      {"scale", "wr", two, [](Kernels& k, const OperandList& t) { k.scale(t[0], t[1], 3.0); }},
      {"div_scalar",
       "wr",
       two,
       [](Kernels& k, const OperandList& t) { k.div_scalar(t[0], t[1], 3); }},
      {"add_scaled",
       "wrr",
       three,
       [](Kernels& k, const OperandList& t) { k.add_scaled(t[0], t[1], t[2], 0.5); }},
      {"add_row",
       "wrr",
       {kSquare, kSquare, kRow},
       [](Kernels& k, const OperandList& t) { k.add_row(t[0], t[1], t[2]); }},
      {"relu", "wr", two, [](Kernels& k, const OperandList& t) { k.relu(t[0], t[1]); }},
      {"relu_backward",
       "wrr",
       three,
       [](Kernels& k, const OperandList& t) { k.relu_backward(t[0], t[1], t[2]); }},
      {"tanh", "wr", two, [](Kernels& k, const OperandList& t) { k.tanh(t[0], t[1]); }},
      {"sigmoid", "wr", two, [](Kernels& k, const OperandList& t) { k.sigmoid(t[0], t[1]); }},
      {"clamp", "wr", two, [](Kernels& k, const OperandList& t) { k.clamp(t[0], t[1], 1.0); }},
      {"average_into_bucket",
       "wr",
       two,
       [](Kernels& k, const OperandList& t) { k.average_into_bucket(t[0], t[1], 2.0); }},
  };
}

std::vector<Case> the_others() {
  const std::vector<Shape> two = {kSquare, kSquare};
  const std::vector<Shape> three = {kSquare, kSquare, kSquare};
  return {
      {"gemm",
       "wrr",
       three,
       [](Kernels& k, const OperandList& t) { k.gemm(t[0], t[1], t[2], {}); }},
      {"sum_rows",
       "wr",
       {kRow, kSquare},
       [](Kernels& k, const OperandList& t) { k.sum_rows(t[0], t[1]); }},
      {"sum_all",
       "wr",
       {kOne, kSquare},
       [](Kernels& k, const OperandList& t) { k.sum_all(t[0], t[1]); }},
      {"mse",
       "wrr",
       {kOne, kSquare, kSquare},
       [](Kernels& k, const OperandList& t) { k.mse(t[0], t[1], t[2], 4.0); }},
      {"cross_entropy",
       "wwri",
       {kOne, kSquare, kSquare, kRow},
       [](Kernels& k, const OperandList& t) { k.cross_entropy(t[0], t[1], t[2], t[3], 2.0); }},
      {"softmax", "wr", two, [](Kernels& k, const OperandList& t) { k.softmax(t[0], t[1], {}); }},
      {"layer_norm",
       "wrrrww",
       {kSquare, kSquare, kRow, kRow, kRow, kRow},
       [](Kernels& k, const OperandList& t) {
         const std::span<const Tensor> all(t);
         k.layer_norm(t[0], all.subspan(1, 3), all.subspan(4, 2), 1e-5);
       }},
      {"gather_rows",
       "wri",
       {kSquare, kSquare, kRow},
       [](Kernels& k, const OperandList& t) { k.gather_rows(t[0], t[1], t[2]); }},
      {"scatter_add_rows",
       "wri",
       {kSquare, kSquare, kRow},
       [](Kernels& k, const OperandList& t) { k.scatter_add_rows(t[0], t[1], t[2], -1); }},
      {"sgd",
       "wrw",
       three,
       [](Kernels& k, const OperandList& t) { k.sgd(t[0], t[1], t[2], {.momentum = 0.5}); }},
      {"adam",
       "wrww",
       {kSquare, kSquare, kSquare, kSquare},
       [](Kernels& k, const OperandList& t) {
         k.adam(t[0], t[1], std::span<const Tensor>(t).subspan(2), {});
       }},
      {"unscale",
       "w",
       {kSquare},
       [](Kernels& k, const OperandList& t) { (void)k.unscale(t[0], 2); }},
      {"norm", "r", {kSquare}, [](Kernels& k, const OperandList& t) { (void)k.norm(t[0], 2.0); }},
  };
}

class WatchingKernelsTest : public ::testing::Test {
 protected:
  OperandList operands(const Case& c) {
    OperandList tensors;
    for (std::size_t i = 0; i < c.roles.size(); ++i) {
      const bool indices = c.roles[i] == 'i';
      const double value = indices ? 1.0 : 0.5 + static_cast<double>(i);
      const DType dtype = indices ? DType::kI64 : DType::kF32;
      tensors.push_back(Tensor::full(test.runtime, c.shapes[i], dtype, value));
    }
    return tensors;
  }

  /// What is reported when operand `i` belongs to a transfer that writes it, or only reads it.
  std::vector<InFlight::Access> accesses_of(const Case& c, std::size_t i, bool transfer_writes) {
    const OperandList tensors = operands(c);
    Accesses listener;
    InFlight in_flight;
    in_flight.listen(&listener);
    const auto* begin = static_cast<const std::byte*>(tensors[i].raw());
    in_flight.lend({.begin = begin,
                    .end = begin + tensors[i].n_bytes(),
                    .written = transfer_writes,
                    .work = 1});
    test.runtime.set_in_flight(&in_flight);
    c.run(*watching, tensors);
    test.runtime.set_in_flight(nullptr);
    return listener.accesses;
  }

  void expect_roles(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      for (std::size_t i = 0; i < c.roles.size(); ++i) {
        SCOPED_TRACE(c.name + ", operand " + std::to_string(i));
        const bool writes = c.roles[i] == 'w';
        const auto accesses = accesses_of(c, i, true);
        ASSERT_EQ(accesses.size(), 1U);
        EXPECT_EQ(accesses[0].operation, c.name);
        EXPECT_EQ(accesses[0].writes, writes);
        EXPECT_EQ(accesses_of(c, i, false).size(), writes ? 1U : 0U);
      }
    }
  }

  TestRuntime test;
  std::unique_ptr<Kernels> watching = make_watching_kernels(*test.kernels);
};

TEST_F(WatchingKernelsTest, ElementWiseOperationsTellWhatTheyTouch) {
  expect_roles(element_wise_cases());
}

TEST_F(WatchingKernelsTest, OtherOperationsTellWhatTheyTouch) { expect_roles(the_others()); }

TEST_F(WatchingKernelsTest, ResultsAreThoseOfTheKernelsWithin) {
  for (const auto& cases : {element_wise_cases(), the_others()}) {
    for (const Case& c : cases) {
      const OperandList plain = operands(c);
      const OperandList watched = operands(c);
      c.run(*test.kernels, plain);
      c.run(*watching, watched);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        EXPECT_EQ(values_of(plain[i]), values_of(watched[i])) << c.name;
      }
    }
  }
}

TEST_F(WatchingKernelsTest, AViewOfTheMemoryIsTheMemory) {
  const Tensor bucket = Tensor::zeros(test.runtime, {8}, DType::kF32);
  const Tensor inside = bucket.slice(4, {2});
  const Tensor outside = bucket.slice(0, {4});
  Accesses listener;
  InFlight in_flight;
  in_flight.listen(&listener);
  const auto* begin = static_cast<const std::byte*>(bucket.raw());
  in_flight.lend({.begin = begin + 16, .end = begin + 32, .written = true, .work = 1});
  test.runtime.set_in_flight(&in_flight);
  watching->fill(outside, 1.0);
  EXPECT_TRUE(listener.accesses.empty());
  watching->fill(inside, 1.0);
  ASSERT_EQ(listener.accesses.size(), 1U);
  (void)bucket.at(4);
  ASSERT_EQ(listener.accesses.size(), 2U);
  EXPECT_EQ(listener.accesses[1].operation, "element");
  EXPECT_NE(std::string(listener.accesses[1].site.file).find("watching_kernels_test.cc"),
            std::string::npos);
  (void)bucket.at(5);
  EXPECT_EQ(listener.accesses.size(), 2U);  // Once a transfer and kind of access is enough.
  in_flight.give_back(1);
  watching->fill(inside, 2.0);
  EXPECT_EQ(listener.accesses.size(), 2U);
  test.runtime.set_in_flight(nullptr);
}

TEST_F(WatchingKernelsTest, AccessesInsideASiteAreReportedThere) {
  const Tensor data = Tensor::zeros(test.runtime, {2}, DType::kF32);
  Accesses listener;
  InFlight in_flight;
  in_flight.listen(&listener);
  const auto* begin = static_cast<const std::byte*>(data.raw());
  in_flight.lend({.begin = begin, .end = begin + 8, .written = true, .work = 1});
  test.runtime.set_in_flight(&in_flight);
  {
    const AccessSite site(&in_flight, {"clip.py", 3, ""});
    watching->fill(data, 1.0);
  }
  (void)data.at(0);
  test.runtime.set_in_flight(nullptr);
  ASSERT_EQ(listener.accesses.size(), 2U);
  EXPECT_STREQ(listener.accesses[0].site.file, "clip.py");
  EXPECT_STRNE(listener.accesses[1].site.file, "clip.py");
}

}  // namespace
}  // namespace lockstep
