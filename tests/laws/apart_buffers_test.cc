// Evaluations of a loop whose ranks hold buffers of their own: advice of buffers-policy.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

/// Three ranks of a loop evaluate after two steps.
struct Evaluated {
  bool synchronizes = false;
  std::int32_t n_wrapped = 3;
  ReduceOp reduce = ReduceOp::kSum;
  const char* scope = "";
  bool before = false;          ///< The sum comes before the evaluation.
  std::uint64_t of_last = 9;    ///< Buffer of the last rank; the others' is 7.
  std::int32_t n_evaluate = 3;  ///< Ranks.
  StatePoint point = StatePoint::kEval;
  StateKind kind = StateKind::kBuffer;
  std::optional<BufferPolicy> declared{};
};

void add_sum(EventStream& stream, std::int32_t rank, const Evaluated& given) {
  CollectiveEvent sum;
  sum.signature.op = CollectiveOp::kAllReduce;
  sum.signature.reduce = given.reduce;
  sum.signature.site = stream.site("train.cc", 9);
  sum.signature.site.scope = given.scope;
  stream.add(rank, sum);
}

std::string said_of(const Evaluated& given) {
  EventStream stream(3);
  const LayoutId buffers = stream.layout({"mean"});
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    stream.at(rank).wrapper = 0;
    stream.at(rank).opt = 2;
    stream.add(rank,
               WrapEvent{.params = stream.layout({"weight"}),
                         .buffers = buffers,
                         .buffer_policy = BufferPolicy::kLocal,
                         .n_ranks = given.n_wrapped,
                         .synchronizes = given.synchronizes});
    if (given.declared) {
      stream.add(rank, BufferPolicyEvent{.layout = buffers, .policy = *given.declared});
    }
  }
  for (std::int32_t rank = 0; rank < given.n_evaluate; ++rank) {
    if (given.before) add_sum(stream, rank, given);
    stream.add(rank, PhaseEvent{PhaseKind::kEval});
    if (!given.before) add_sum(stream, rank, given);
    const std::vector<std::uint64_t> digests = {rank == 2 ? given.of_last : 7};
    stream.add(
        rank,
        StateEvent{
            .kind = given.kind, .point = given.point, .layout = buffers, .digests = digests});
    stream.add(rank, PhaseEvent{PhaseKind::kTrain});
  }
  const auto text_of = [](const LawResult& result) {
    std::string text;
    for (const Advice& advice : result.advice) text += advice.id + ": " + advice.message;
    return text;
  };
  const std::string text = text_of(check("buffers-policy", stream));
  EXPECT_EQ(text_of(testing::check_together("buffers-policy", stream)), text);
  return text;
}

TEST(ApartBuffersTest, ASumOfWhatSeveralModelsFindGetsAdvice) {
  EXPECT_EQ(said_of({}),
            "A-buffers-apart: in the evaluation after 2 steps, `mean` differs between the 3 ranks "
            "although their results are summed: each rank evaluates a different model. Broadcast "
            "or average the buffers first, unless they should differ.");
  EXPECT_NE(said_of({.reduce = ReduceOp::kAvg}), "");
  EXPECT_NE(said_of({.point = StatePoint::kEnd}), "");
}

TEST(ApartBuffersTest, EqualBuffersAreOneModel) { EXPECT_EQ(said_of({.of_last = 7}), ""); }

TEST(ApartBuffersTest, WithoutASumOfTheProgramsOwnEachResultIsForItself) {
  EXPECT_EQ(said_of({.reduce = ReduceOp::kMax}), "");
  EXPECT_EQ(said_of({.scope = "ddp.buffers"}), "");
  EXPECT_EQ(said_of({.before = true}), "");
}

TEST(ApartBuffersTest, OneRankThatEvaluatesHasOneModel) {
  EXPECT_EQ(said_of({.n_evaluate = 1}), "");
}

TEST(ApartBuffersTest, WhatAWrapperDoesOrAProgramSaysIsLeftToTheLaw) {
  EXPECT_EQ(said_of({.synchronizes = true}), "");
  EXPECT_EQ(said_of({.n_wrapped = 1}), "");
  EXPECT_EQ(said_of({.declared = BufferPolicy::kLocal}), "");
}

TEST(ApartBuffersTest, OnlyBuffersAsTheyWereUsedCount) {
  EXPECT_EQ(said_of({.point = StatePoint::kSave}), "");
  EXPECT_EQ(said_of({.kind = StateKind::kAuxiliary}), "");
}

}  // namespace
}  // namespace lockstep
