// What is remembered of tensors' contents, and everything that must make it forgotten.
#include "lockstep/tensor/contents.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/tensor/in_flight.h"

#include "tests/support/test_runtime.h"

namespace lockstep::testing {

namespace {

struct RememberingRuntime : TestRuntime {
  RememberingRuntime() {
    runtime.set_in_flight(&in_flight);
    runtime.set_contents(&contents);
  }

  Tensor ramp(std::int64_t n = 100) {
    Tensor tensor = Tensor::empty(runtime, {n}, DType::kF32);
    for (std::int64_t i = 0; i < n; ++i) {
      kernels->fill(tensor.slice(i, {1}), static_cast<double>(i) / 4.0);
    }
    return tensor;
  }

  std::uint64_t read(const Tensor& tensor) { return kernels->digest(tensor, 0); }

  InFlight in_flight;
  Contents contents;
};

}  // namespace

TEST(ContentsTest, WhatWasLookedAtIsNotReadAgain) {
  RememberingRuntime test;
  const Tensor tensor = test.ramp();
  const TensorFingerprint wanted = test.kernels->fingerprint(tensor);

  EXPECT_EQ(known_fingerprint(tensor), wanted);
  EXPECT_EQ(test.contents.n_spared(), 0U);
  EXPECT_EQ(known_fingerprint(tensor), wanted);
  EXPECT_EQ(known_digest(tensor), wanted.digest);
  EXPECT_EQ(test.contents.n_spared(), 2U);
}

TEST(ContentsTest, ADigestAloneIsNotASketch) {
  RememberingRuntime test;
  const Tensor tensor = test.ramp();
  const TensorFingerprint wanted = test.kernels->fingerprint(tensor);

  EXPECT_EQ(known_digest(tensor), wanted.digest);
  EXPECT_EQ(known_fingerprint(tensor), wanted);
  EXPECT_EQ(known_fingerprint(tensor), wanted);
  EXPECT_EQ(test.contents.n_spared(), 1U);
}

TEST(ContentsTest, PartsAndOtherTypesAreOtherContents) {
  RememberingRuntime test;
  const Tensor tensor = test.ramp(300);
  for (const std::int64_t first : {0, 1, 100, 200}) {
    const Tensor part = tensor.slice(first, {100});
    EXPECT_EQ(known_digest(part), test.read(part));
    EXPECT_EQ(known_digest(tensor.slice(first, {99})), test.read(tensor.slice(first, {99})));
  }
  EXPECT_EQ(test.contents.n_spared(), 0U);
  EXPECT_EQ(known_digest(tensor.slice(200, {100})), test.read(tensor.slice(200, {100})));
  EXPECT_EQ(test.contents.n_spared(), 1U);
}

TEST(ContentsTest, EveryOperationThatWritesIsNoticed) {
  RememberingRuntime test;
  Kernels& kernels = *test.kernels;
  const Tensor other = test.ramp(64).reshape({8, 8});
  const std::vector<std::function<void(const Tensor&)>> writers = {
      [&](const Tensor& t) { kernels.fill(t, 3.0); },
      [&](const Tensor& t) { kernels.fill(t.slice(63, {1}), 3.0); },
      [&](const Tensor& t) { kernels.copy(t, other); },
      [&](const Tensor& t) { kernels.copy(t, other.to(DType::kF64)); },
      [&](const Tensor& t) { kernels.add(t, t, other); },
      [&](const Tensor& t) { kernels.scale(t, t, 2.0); },
      [&](const Tensor& t) { kernels.add_scaled(t, t, other, 0.5); },
      [&](const Tensor& t) { kernels.gemm(t, other, other, {}); },
      [&](const Tensor& t) { kernels.sum_rows(t.slice(0, {8}), other); },
      [&](const Tensor& t) { kernels.unscale(t, 0.5); },
      [&](const Tensor& t) { kernels.clamp(t, t, 1.0); },
      [&](const Tensor& t) { kernels.average_into_bucket(t, other, 3.0); },
      [&](const Tensor& t) { kernels.sgd(t, other, Tensor(), {.lr = 0.1}); },
      [&](const Tensor& t) { kernels.sgd(other.clone(), other, t, {.lr = 0.1, .momentum = 0.9}); },
      [&](const Tensor& t) { kernels.softmax(t, other, {}); },
  };
  for (std::size_t i = 0; i < writers.size(); ++i) {
    const Tensor tensor = Tensor::full(test.runtime, {8, 8}, DType::kF32, -2.0);
    const std::uint64_t before = known_digest(tensor);
    writers[i](tensor);
    EXPECT_EQ(known_digest(tensor), test.read(tensor)) << i;
    EXPECT_NE(known_digest(tensor), before) << i;
  }
}

TEST(ContentsTest, AStorageWithAnExposedPointerIsReadAgain) {
  RememberingRuntime test;
  const Tensor tensor = test.ramp();
  const std::uint64_t before = known_digest(tensor);
  float* const held = tensor.slice(10, {5}).data<float>();
  EXPECT_EQ(known_digest(tensor), before);
  *held = -1.0F;
  const std::uint64_t after = known_digest(tensor);
  EXPECT_NE(after, before);

  // An operation does not make it forgotten.
  test.kernels->fill(tensor, 1.0);
  (void)known_digest(tensor);
  *held = 2.0F;
  EXPECT_EQ(known_digest(tensor), test.read(tensor));
  EXPECT_EQ(test.contents.n_spared(), 0U);
}

TEST(ContentsTest, ACopyContainsWhatItWasCopiedFrom) {
  RememberingRuntime test;
  const Tensor flat = test.ramp(300);
  const Tensor part = flat.slice(100, {100});
  const std::uint64_t wanted = known_digest(part);
  const Tensor first = part.clone();
  const Tensor second = first.clone();

  EXPECT_EQ(known_digest(first), wanted);
  EXPECT_EQ(known_digest(second.reshape({10, 10})), wanted);
  EXPECT_EQ(test.contents.n_spared(), 2U);

  test.kernels->fill(first, 7.0);
  test.kernels->fill(flat, 8.0);
  EXPECT_EQ(known_digest(second), wanted);
  EXPECT_EQ(known_digest(first), test.read(first));
  EXPECT_EQ(known_digest(part), test.read(part));
  EXPECT_EQ(known_digest(second), test.read(second));
}

TEST(ContentsTest, ACopyIntoPartOfAStorageIsNotACopyOfTheWhole) {
  RememberingRuntime test;
  const Tensor source = test.ramp();
  (void)known_digest(source);
  const Tensor wide = Tensor::zeros(test.runtime, {200}, DType::kF32);
  (void)known_digest(wide.slice(0, {100}));
  test.kernels->copy(wide.slice(100, {100}), source);

  EXPECT_EQ(known_digest(wide), test.read(wide));
  EXPECT_EQ(known_digest(wide.slice(0, {100})), test.read(wide.slice(0, {100})));
  EXPECT_EQ(known_digest(wide.slice(100, {100})), test.read(wide.slice(100, {100})));
}

TEST(ContentsTest, ACopyOfWhatIsThereAlreadyChangesNothing) {
  RememberingRuntime test;
  const Tensor tensor = test.ramp();
  const Tensor twin = test.ramp();
  const std::uint64_t before = known_digest(tensor);
  test.kernels->copy(tensor, twin);
  EXPECT_EQ(known_digest(tensor), before);
  EXPECT_EQ(test.contents.n_spared(), 1U);

  test.kernels->fill(twin.slice(99, {1}), -1.0);
  test.kernels->copy(tensor, twin);
  EXPECT_EQ(known_digest(tensor), test.read(twin));
  EXPECT_EQ(test.contents.n_spared(), 1U);
  // Equal as numbers, not as bits.
  const Tensor zero = Tensor::zeros(test.runtime, {64}, DType::kF32);
  const Tensor minus_zero = Tensor::full(test.runtime, {64}, DType::kF32, -0.0);
  (void)known_digest(zero);
  test.kernels->copy(zero, minus_zero);
  EXPECT_EQ(known_digest(zero), test.read(minus_zero));
}

TEST(ContentsTest, ANameStandsForTheBytesOfOneTensor) {
  RememberingRuntime test;
  const Tensor tensor = test.ramp();
  const ContentName name = content_name(tensor);
  EXPECT_TRUE(name.is_known());
  EXPECT_EQ(content_name(tensor), name);
  EXPECT_NE(content_name(tensor.slice(0, {50})), name);
  EXPECT_NE(content_name(tensor.slice(0, {50})), content_name(tensor.slice(50, {50})));
  const Tensor copy = Tensor::empty(test.runtime, {100}, DType::kF32);
  test.kernels->copy(copy, tensor);
  EXPECT_EQ(content_name(copy), name);
  EXPECT_TRUE(test.contents.contains(tensor, name));
  EXPECT_TRUE(test.contents.contains(copy, name));
  EXPECT_FALSE(test.contents.contains(tensor.slice(0, {50}), name));
  EXPECT_FALSE(test.contents.contains(tensor.slice(50, {50}), content_name(tensor.slice(0, {50}))));
  EXPECT_FALSE(test.contents.contains(tensor, ContentName{}));

  test.kernels->fill(tensor.slice(7, {1}), 9.0);
  EXPECT_NE(content_name(tensor), name);
  EXPECT_FALSE(test.contents.contains(tensor, name));
  tensor.raw();
  EXPECT_FALSE(content_name(tensor).is_known());
  EXPECT_FALSE(test.contents.contains(tensor, name));
  test.contents.close();
  EXPECT_FALSE(content_name(copy).is_known());
  EXPECT_FALSE(test.contents.contains(copy, name));
}

TEST(ContentsTest, ALentStorageIsReadAgainUntilItIsTakenBack) {
  RememberingRuntime test;
  const Tensor mine = test.ramp();
  const Tensor others = test.ramp();
  const std::uint64_t result = test.contents.fresh();
  (void)known_digest(mine);
  const std::uint64_t loan = test.contents.fresh();
  auto* const transfer = reinterpret_cast<float*>(mine.storage()->lend(loan));
  (void)known_digest(mine);
  transfer[5] = -1.0F;
  EXPECT_EQ(known_digest(mine), test.read(mine));
  EXPECT_EQ(test.contents.n_spared(), 0U);

  mine.storage()->take_back(loan, result);
  others.storage()->set_content(result, 0);  // Another rank's, which was left the same bytes.
  test.kernels->copy(others, mine);
  EXPECT_EQ(known_digest(mine), test.read(mine));
  EXPECT_EQ(known_digest(others), test.read(mine));
  EXPECT_EQ(test.contents.n_spared(), 1U);
}

TEST(ContentsTest, WhatIsWrittenWhileItIsLentIsNeverTrustedAgain) {
  RememberingRuntime test;
  const Tensor tensor = test.ramp();
  auto* const transfer = reinterpret_cast<float*>(tensor.storage()->lend(5));
  test.kernels->fill(tensor, 1.0);
  (void)known_digest(tensor);
  transfer[5] = -1.0F;
  EXPECT_EQ(known_digest(tensor), test.read(tensor));
  tensor.storage()->take_back(5, test.contents.fresh());
  transfer[5] = -2.0F;
  EXPECT_EQ(known_digest(tensor), test.read(tensor));
}

TEST(ContentsTest, AnotherLoanIsNotTheFirstOne) {
  RememberingRuntime test;
  const Tensor tensor = test.ramp();
  tensor.storage()->lend(5);
  auto* const transfer = reinterpret_cast<float*>(tensor.storage()->lend(6));
  tensor.storage()->take_back(5, test.contents.fresh());
  (void)known_digest(tensor);
  transfer[5] = -2.0F;
  EXPECT_EQ(known_digest(tensor), test.read(tensor));
}

// Its memory becomes another tensor's, and the transfer writes there.
TEST(ContentsTest, NothingIsTrustedOnceMemoryEndsThatATransferOwns) {
  RememberingRuntime test;
  Tensor lost = test.ramp();
  auto* const transfer = lost.data<float>();
  const auto* const begin = static_cast<const std::byte*>(lost.read_raw());
  test.in_flight.lend({.begin = begin, .end = begin + lost.n_bytes(), .written = true, .work = 1});
  lost = Tensor();
  EXPECT_TRUE(test.contents.closed());

  const Tensor heir = test.ramp();
  ASSERT_EQ(heir.read_raw(), begin);
  (void)known_digest(heir);
  transfer[5] = -2.0F;
  EXPECT_EQ(known_digest(heir), test.read(heir));
}

TEST(ContentsTest, MemoryThatNoTransferOwnsMayEnd) {
  RememberingRuntime test;
  const Tensor owned = test.ramp();
  const std::byte* const begin = owned.address();
  test.in_flight.lend({.begin = begin, .end = begin + owned.n_bytes(), .written = true, .work = 1});
  Tensor other = test.ramp();
  (void)other.data<float>();
  other = Tensor();
  EXPECT_FALSE(test.contents.closed());
}

TEST(ContentsTest, MoreContentsThanPlacesPushEachOtherOut) {
  RememberingRuntime test;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 3000; ++i) {
    tensors.push_back(Tensor::full(test.runtime, {64}, DType::kF32, i));
  }
  for (int round = 0; round < 2; ++round) {
    for (const Tensor& tensor : tensors) ASSERT_EQ(known_digest(tensor), test.read(tensor));
  }
}

}  // namespace lockstep::testing
