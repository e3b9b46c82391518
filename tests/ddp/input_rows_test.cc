// Which rows of what forwards are given are recorded, and by which digests.
#include "lockstep/ddp/input_rows.h"

#include <bit>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/ddp/ddp.h"
#include "lockstep/functional/functions.h"
#include "lockstep/tensor/digest.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;

/// Adds its inputs up, each times one parameter.
class Sum : public TinyModel {
 public:
  explicit Sum(Runtime& rt) : TinyModel(rt) { weight = parameter("weight", {2.0}); }

  std::vector<NamedVariable> named_parameters() { return parameters; }

  std::vector<NamedVariable> named_buffers() { return buffers; }

  bool is_training() const { return training; }

  Variable forward(const Variable& x) { return mul(sum(x), sum(weight)); }

  Variable forward(const Variable& x, const Variable& y) { return add(forward(x), forward(y)); }

  Variable weight;
  bool training = true;
};

Variable rows(MiniRank& rank, std::int64_t n, float first, bool requires_grad = false) {
  Tensor values = Tensor::zeros(rank.runtime, {n, 2}, DType::kF32);
  for (std::int64_t i = 0; i < 2 * n; ++i) values.data<float>()[i] = first + static_cast<float>(i);
  return Variable(values, requires_grad);
}

/// By the formula of digest.h, for a row of two numbers, which are one word.
std::uint64_t digest(float first, float second) {
  const std::uint64_t word = std::bit_cast<std::uint32_t>(first) |
                             std::uint64_t{std::bit_cast<std::uint32_t>(second)} << 32U;
  return mix64(8 ^ word);
}

struct Seen {
  std::string argument;
  std::vector<std::uint64_t> rows;
  Position at;
};

std::vector<Seen> seen_by(const MiniResult& result, std::int32_t rank) {
  std::vector<Seen> seen;
  for (const Event& event : result.trace->events(Rank{rank})) {
    const auto* input = std::get_if<InputEvent>(&event.body);
    if (input == nullptr) continue;
    seen.push_back({std::string(result.trace->names().text(input->argument)),
                    {input->rows.begin(), input->rows.end()},
                    event.at});
  }
  return seen;
}

/// What rank 0 leaves of a program.
std::vector<Seen> seen(
    const std::function<void(MiniRank&, Sum&, DistributedDataParallel<Sum>&)>& program) {
  const MiniResult result = run_mini_world({.n_ranks = 2}, [&](MiniRank& rank) {
    Sum model(rank.runtime);
    DistributedDataParallel ddp(model, rank.group);
    program(rank, model, ddp);
  });
  EXPECT_TRUE(result.ok()) << result.error(0);
  return seen_by(result, 0);
}

TEST(InputRowsTest, EachRowHasTheDigestOfItsElements) {
  const std::vector<Seen> events = seen([](MiniRank& rank, Sum&, auto& ddp) {
    ddp(rows(rank, 2, 1.0F)).backward();
    ddp(rows(rank, 1, 5.0F)).backward();
  });
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].argument, "1");
  EXPECT_EQ(events[0].rows, (std::vector{digest(1, 2), digest(3, 4)}));
  EXPECT_EQ(events[0].at.wrapper, 0);
  EXPECT_EQ(events[0].at.sync, 0);
  EXPECT_EQ(events[1].rows, (std::vector{digest(5, 6)}));
  EXPECT_EQ(events[1].at.sync, 1);
}

TEST(InputRowsTest, ArgumentsAreCountedAndThoseThatNeedAGradientLeftOut) {
  const std::vector<Seen> events = seen([](MiniRank& rank, Sum&, auto& ddp) {
    ddp(rows(rank, 1, 1.0F), rows(rank, 1, 3.0F)).backward();
    ddp(rows(rank, 1, 1.0F, true), rows(rank, 1, 7.0F)).backward();
  });
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].argument, "1");
  EXPECT_EQ(events[1].argument, "2");
  EXPECT_EQ(events[2].argument, "2");
  EXPECT_EQ(events[2].rows, (std::vector{digest(7, 8)}));
}

/// A loss after a forward, and one without a graph.
std::vector<Seen> seen_of_target(const Shape& shape) {
  return seen([&](MiniRank& rank, Sum&, auto& ddp) {
    const Variable out = ddp(rows(rank, 1, 1.0F));
    const Variable weights(Tensor::of(rank.runtime, shape, DType::kF32, {{1.0, 1.0}}), true);
    const Tensor target = Tensor::of(rank.runtime, shape, DType::kF32, {{3.0, 4.0}});
    mse_loss(weights, target).backward();
    mse_loss(weights.detach(), target);
    out.backward();
  });
}

TEST(InputRowsTest, WhatALossComparesWithIsRecordedWhereABackwardMayFollow) {
  const std::vector<Seen> events = seen_of_target({1, 2});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].argument, kTargetArgument);
  EXPECT_EQ(events[1].rows, (std::vector{digest(3, 4)}));
}

TEST(InputRowsTest, TargetsOfOneNumberEachAreLeftOut) {
  EXPECT_EQ(seen_of_target({2, 1}).size(), 1U);
}

TEST(InputRowsTest, ForwardsThatDoNotTrainAreLeftOut) {
  EXPECT_TRUE(seen([](MiniRank& rank, Sum& model, auto& ddp) {
                {
                  const NoGradGuard no_grad(rank.runtime);
                  ddp(rows(rank, 1, 1.0F));
                }
                model.training = false;
                ddp(rows(rank, 1, 1.0F));
              }).empty());
}

TEST(InputRowsTest, AfterAThousandRowsNothingMoreIsRecorded) {
  const std::vector<Seen> events = seen([](MiniRank& rank, Sum&, auto& ddp) {
    ddp(rows(rank, 1000, 1.0F)).backward();
    ddp(rows(rank, 1100, 1.0F)).backward();
    ddp(rows(rank, 1, 1.0F)).backward();
  });
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].rows.size(), 1000U);
  EXPECT_EQ(std::ssize(events[1].rows), InputRows::kMostRows) << "the first ones of a large batch";
}

TEST(InputRowsTest, AfterManyBytesNothingMoreIsRecorded) {
  const std::vector<Seen> events = seen([](MiniRank& rank, Sum&, auto& ddp) {
    for (int i = 0; i < 2; ++i)
      ddp(Variable(Tensor::zeros(rank.runtime, {2, InputRows::kMostBytes / 8}, DType::kF32)))
          .backward();
  });
  EXPECT_EQ(events.size(), 1U);
}

TEST(InputRowsTest, OnlyTheFirstRanksRecordRows) {
  const MiniResult result =
      run_mini_world({.n_ranks = InputRows::kMostRanks + 1}, [&](MiniRank& rank) {
        Sum model(rank.runtime);
        DistributedDataParallel ddp(model, rank.group);
        ddp(rows(rank, 1, 1.0F)).backward();
      });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(seen_by(result, InputRows::kMostRanks - 1).size(), 1U);
  EXPECT_TRUE(seen_by(result, InputRows::kMostRanks).empty());
}

TEST(InputRowsTest, WithoutALawThatReadsSamplesNothingIsRead) {
  const MiniResult result =
      run_mini_world({.n_ranks = 2, .record = {.samples = false}}, [&](MiniRank& rank) {
        Sum model(rank.runtime);
        DistributedDataParallel ddp(model, rank.group);
        ddp(rows(rank, 1, 1.0F)).backward();
      });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_TRUE(seen_by(result, 0).empty());
}

}  // namespace
}  // namespace lockstep
