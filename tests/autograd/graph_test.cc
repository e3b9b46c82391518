#include "lockstep/autograd/graph.h"

#include <array>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/functional/functions.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using testing::PlainRuntime;

TEST(GraphTest, FindsTheLeavesABackwardWouldTouch) {
  PlainRuntime rt;
  const auto leaf = [&rt] { return Variable(rt.tensor({1}, {1}), true); };
  const std::array leaves{leaf(), leaf(), leaf(), leaf()};
  leaves[3].set_requires_grad(false);
  const std::array roots{sum(mul(leaves[0], leaves[2])), sum(mul(leaves[2], leaves[3]))};
  const Variable unrelated = scale(leaves[1], 2);

  std::array<std::uint8_t, 4> reached{9, 9, 9, 9};
  find_reachable(roots, leaves, reached);
  EXPECT_THAT(reached, ElementsAre(1, 0, 1, 0));

  find_reachable(std::span(&unrelated, 1), leaves, reached);
  EXPECT_THAT(reached, ElementsAre(0, 1, 0, 0));
}

TEST(GraphTest, ASearchDoesNotDisturbTheBackward) {
  PlainRuntime rt;
  const Variable w(rt.tensor({1}, {3}), true);
  const Variable loss = sum(mul(w, w));
  std::uint8_t reached = 0;

  find_reachable(std::span(&loss, 1), std::span(&w, 1), std::span(&reached, 1));
  loss.backward();

  EXPECT_EQ(reached, 1);
  EXPECT_EQ(w.grad().item(), 6);
}

TEST(GraphTest, ALeafCanBeARoot) {
  PlainRuntime rt;
  const Variable w(rt.tensor({1}, {3}), true);
  scale(w, 2);
  std::uint8_t reached = 0;

  find_reachable(std::span(&w, 1), std::span(&w, 1), std::span(&reached, 1));

  EXPECT_EQ(reached, 1);
}

}  // namespace
}  // namespace lockstep
