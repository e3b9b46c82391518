// What errors say when a contract of tensors is broken: the values, so that the mistake is seen.
#include <array>

#include <gtest/gtest.h>

#include "lockstep/tensor/kernels.h"
#include "lockstep/tensor/tensor.h"

#include "tests/support/complaint.h"
#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using testing::complaint_of;
using testing::expect_complaints;
using testing::PlainRuntime;

const std::string kNoShape =
    " is not a shape: it has at most 4 sizes, none of them negative, and at most 1125899906842624 "
    "elements";

TEST(TensorContractsTest, SayWhichShapeOrElementWasAskedFor) {
  PlainRuntime rt;
  const Tensor six = rt.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, DType::kF32);

  expect_complaints({
      {[&] {
         six.reshape({4, 2});
       },
       "cannot reshape f32 [2, 3], which has 6 elements, to [4, 2], which has 8"},
      {[&] { six.slice(5, {2}); },
       "a slice of 2 elements from element 5 on reaches over the end of f32 [2, 3], which has 6"},
      {[&] { six.rows(1, 2); }, "2 rows from row 1 on of f32 [2, 3], which has 2"},
      {[&] { six.at(6); }, "element 6 of f32 [2, 3], which has 6"},
      {[&] { six.item(); }, "item() of f32 [2, 3]: it is for tensors of one element"},
      {[&] { six.read<double>(); }, "the elements of f32 [2, 3] cannot be read as f64"},
      {[&] {
         rt.tensor({2, 2}, {1, 2, 3});
       },
       "3 values for a tensor of [2, 2], which has 4 elements"},
      {[&] {
         Shape({2, -3});
       },
       "[2, -3]" + kNoShape},
      {[&] {
         Shape({1, 2, 3, 4, 5});
       },
       "[1, 2, 3, 4, 5]" + kNoShape},
  });
}

// Sizes whose product, bytes or strides fit no number.
TEST(TensorContractsTest, RefuseSizesThatOverflow) {
  PlainRuntime rt;
  const Tensor six = rt.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, DType::kF32);
  const auto asked = [](std::initializer_list<std::int64_t> sizes) {
    static_cast<void>(Shape(sizes));
  };
  constexpr std::int64_t kTera = std::int64_t{1} << 40;

  expect_complaints({
      {[&] { asked({std::int64_t{1} << 62}); }, "[4611686018427387904]" + kNoShape},
      {[&] {
         asked({std::int64_t{1} << 32, std::int64_t{1} << 32});
       },
       "[4294967296, 4294967296]" + kNoShape},
      {[&] {
         asked({0, kTera, kTera});
       },
       "[0, 1099511627776, 1099511627776]" + kNoShape},
      {[&] {
         asked({Shape::kMaxElems, 2});
       },
       "[1125899906842624, 2]" + kNoShape},
      {[&] { six.slice(INT64_MAX, {2}); },
       "a slice of 2 elements from element 9223372036854775807 on reaches over the end of f32 [2, "
       "3], "
       "which has 6"},
      {[&] { six.rows(1, INT64_MAX); },
       "9223372036854775807 rows from row 1 on of f32 [2, 3], which has 2"},
  });
  EXPECT_EQ(Shape({Shape::kMaxElems}).n_elems(), Shape::kMaxElems);
  EXPECT_EQ(Shape({kTera, 0}).n_elems(), 0);
}

TEST(TensorContractsTest, SayWhichOperandsDoNotFit) {
  PlainRuntime rt;
  Kernels& kernels = rt.kernels();
  const Tensor two = rt.tensor({2}, {1, 2});
  const Tensor three = rt.tensor({3}, {1, 2, 3});
  const Tensor scores = rt.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor label = rt.tensor({2}, {0, 3}, DType::kI64);
  const Tensor whole = rt.tensor({2}, {1, 2}, DType::kI32);
  const Tensor scalar = rt.tensor({}, {0});

  expect_complaints({
      {[&] { kernels.mul(two, three, three); },
       "f64 [2] and f64 [3] have 2 and 3 elements: element-wise operands have equally many"},
      {[&] { kernels.mul(whole, whole, whole); },
       "this operation computes in f32 or f64, not in i32"},
      {[&] { kernels.gemm(scores, scores, scores, {}); },
       "cannot multiply f64 [2, 3] by f64 [2, 3]: the inner sizes 3 and 2 differ"},
      {[&] { kernels.cross_entropy(scalar, scores, scores, label, 1.0); },
       "row 1 has label 3, but there are 3 classes"},
      {[&] { kernels.gather_rows(scores, scores, label); },
       "index 3 is not a row of the table f64 [2, 3], which has 2"},
      {[&] { kernels.norm(two, 3.0); }, "a norm of order 3: it is 1, 2 or infinity"},
  });
}

TEST(TensorContractsTest, AreNotSaidWhereTheyAreKept) {
  PlainRuntime rt;
  const Tensor six = rt.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, DType::kF32);

  EXPECT_EQ(complaint_of([&] { six.reshape({3, 2}); }), "(no contract was broken)");
  EXPECT_EQ(complaint_of([&] { six.slice(4, {2}); }), "(no contract was broken)");
}

}  // namespace
}  // namespace lockstep
