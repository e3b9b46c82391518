#include "lockstep/autograd/engine.h"

#include <functional>
#include <gmock/gmock.h>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/functional/functions.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlainRuntime;
using ::testing::ThrowsMessage;
using testing::values_of;

// Writes down what it is notified of: "+i" for a contribution, "i" for a ready gradient.
class Scribe : public GradHook {
 public:
  explicit Scribe(std::vector<std::string>& log, std::string tag = "") : log_(&log), tag_(tag) {}

  void on_grad_ready(std::size_t index) override {
    log_->push_back(tag_ + std::to_string(index));
    if (then) then(index);
  }

  void on_grad_increment(std::size_t index, const Tensor& increment) override {
    log_->push_back(tag_ + "+" + std::to_string(index));
    increments.push_back(values_of(increment));
  }

  std::vector<std::vector<double>> increments;
  std::function<void(std::size_t)> then;

 private:
  std::vector<std::string>* log_;
  std::string tag_;
};

class Callback : public BackwardCallback {
 public:
  explicit Callback(std::function<void()> body) : body_(std::move(body)) {}

  void on_backward_end() override { body_(); }

 private:
  std::function<void()> body_;
};

class EngineTest : public ::testing::Test {
 protected:
  Variable leaf(const Shape& shape, std::initializer_list<double> values) {
    return Variable(rt_.tensor(shape, values), true);
  }

  Variable leaf(double value) { return leaf({1}, {value}); }

  PlainRuntime rt_;
  std::vector<std::string> log_;
};

TEST_F(EngineTest, LeavesBecomeReadyFromTheLastLayerToTheFirstBiasBeforeWeight) {
  const Variable x(rt_.tensor({1, 1}, {1}));
  const std::vector params{leaf({1, 1}, {2}), leaf(3), leaf({1, 1}, {4}), leaf(5)};
  Scribe scribe(log_);
  for (std::size_t i = 0; i < params.size(); ++i) params[i].add_hook(scribe, i);

  sum(linear(relu(linear(x, params[0], params[1])), params[2], params[3])).backward();

  EXPECT_THAT(log_, ElementsAre("+3", "3", "+2", "2", "+1", "1", "+0", "0"));
}

TEST_F(EngineTest, TheLaterCreatedOfTwoReadyNodesRunsFirst) {
  const Variable a = leaf(1);
  const Variable b = leaf(2);
  Scribe scribe(log_);
  a.add_hook(scribe, 0);
  b.add_hook(scribe, 1);

  const Variable from_a = scale(a, 2);
  const Variable from_b = scale(b, 2);
  sum(add(from_a, from_b)).backward();
  EXPECT_THAT(log_, ElementsAre("+1", "1", "+0", "0"));

  log_.clear();
  sum(add(from_b, from_a)).backward();
  EXPECT_THAT(log_, ElementsAre("+1", "1", "+0", "0"));
}

TEST_F(EngineTest, ASharedLeafFiresOnceWithTheSumOfItsUses) {
  const Variable w = leaf(1);
  w.set_grad(rt_.tensor({1}, {100}));
  Scribe scribe(log_);
  w.add_hook(scribe, 7);

  sum(add(scale(w, 2), add(scale(w, 3), w))).backward();

  EXPECT_THAT(log_, ElementsAre("+7", "7"));
  EXPECT_THAT(scribe.increments, ElementsAre(ElementsAre(6)));
  EXPECT_EQ(w.grad().item(), 106);
}

TEST_F(EngineTest, HooksOfOneLeafFireInTheOrderOfRegistration) {
  const Variable w = leaf(1);
  Scribe first(log_, "a");
  Scribe second(log_, "b");
  w.add_hook(first, 0);
  w.add_hook(second, 0);

  sum(w).backward();
  EXPECT_THAT(log_, ElementsAre("a+0", "b+0", "a0", "b0"));

  log_.clear();
  w.remove_hook(first);
  sum(w).backward();
  EXPECT_THAT(log_, ElementsAre("b+0", "b0"));
}

TEST_F(EngineTest, AReadyHookSeesTheAccumulatedGradientAndMayReplaceIt) {
  const Variable w = leaf(1);
  Scribe scribe(log_);
  double seen = 0;
  scribe.then = [&](std::size_t) {
    seen = w.grad().item();
    w.set_grad(rt_.tensor({1}, {-1}));
  };
  w.add_hook(scribe, 0);

  sum(scale(w, 3)).backward();

  EXPECT_EQ(seen, 3);
  EXPECT_EQ(w.grad().item(), -1);
}

TEST_F(EngineTest, CallbacksRunInOrderAfterTheWholeGraphAndMayQueueMore) {
  const Variable a = leaf(1);
  const Variable b = leaf(2);
  Scribe scribe(log_);
  Callback last([&] { log_.push_back("last"); });
  Callback first([&] {
    log_.push_back("first");
    queue_callback(rt_, last);
  });
  Callback second([&] { log_.push_back("second"); });
  scribe.then = [&](std::size_t index) {
    if (index != 1) return;
    queue_callback(rt_, first);
    queue_callback(rt_, second);
  };
  a.add_hook(scribe, 0);
  b.add_hook(scribe, 1);

  const Variable from_a = scale(a, 1);
  const Variable from_b = scale(b, 1);
  sum(mul(from_a, from_b)).backward();

  EXPECT_THAT(log_, ElementsAre("+1", "1", "+0", "0", "first", "second", "last"));
}

TEST_F(EngineTest, CallbacksBelongToARunningBackward) {
  Callback callback([] {});
  EXPECT_THROW(queue_callback(rt_, callback), ContractViolation);
}

TEST_F(EngineTest, ASecondBackwardNeedsRetainGraph) {
  const Variable w = leaf(3);
  const Variable kept = sum(mul(w, w));
  kept.backward(true);
  kept.backward();
  EXPECT_EQ(w.grad().item(), 12);

  EXPECT_THAT([&] { kept.backward(); },
              ThrowsMessage<ContractViolation>(HasSubstr("retain_graph")));
}

TEST_F(EngineTest, AGraphWithoutSavedValuesMayRunAgain) {
  const Variable w = leaf(3);
  const Variable y = sum(scale(w, 2));
  y.backward();
  y.backward();
  EXPECT_EQ(w.grad().item(), 4);
}

TEST_F(EngineTest, ValuesWrittenAfterTheyWereSavedAreNoticed) {
  const Variable w = leaf(3);
  const Variable loss = sum(mul(w, w));

  w.data().storage()->bump_version();

  EXPECT_THAT([&] { loss.backward(); },
              ThrowsMessage<ContractViolation>(HasSubstr("modified by an in-place operation")));
}

TEST_F(EngineTest, WritesToUnsavedValuesAreFine) {
  const Variable w = leaf(3);
  const Variable loss = sum(scale(w, 2));

  w.data().storage()->bump_version();

  EXPECT_NO_THROW(loss.backward());
  EXPECT_EQ(w.grad().item(), 2);
}

TEST_F(EngineTest, ABackwardInsideAHookEndsBeforeTheOuterOneContinues) {
  const Variable w = leaf(1);
  const Variable x = leaf(1);
  const Variable other = sum(scale(x, 2));
  Scribe scribe(log_);
  double seen = 0;
  scribe.then = [&](std::size_t) {
    other.backward();
    seen = x.grad().at(0);
  };
  w.add_hook(scribe, 0);

  sum(w).backward();

  EXPECT_EQ(seen, 2);
}

// A hook that differentiates what fires it.
TEST_F(EngineTest, EndlessNestingIsRefused) {
  const Variable w = leaf(1);
  const Variable loss = sum(w);
  Scribe scribe(log_);
  scribe.then = [&](std::size_t) { loss.backward(true); };
  w.add_hook(scribe, 0);

  EXPECT_THAT([&] { loss.backward(true); },
              ThrowsMessage<ContractViolation>(HasSubstr("nested too deeply")));
  scribe.then = nullptr;
  EXPECT_NO_THROW(loss.backward());
}

TEST_F(EngineTest, AThrowingHookLeavesTheEngineReady) {
  const Variable a = leaf(1);
  const Variable b = leaf(2);
  Scribe scribe(log_);
  bool throws = true;
  bool late = false;
  Callback callback([&] { late = true; });
  scribe.then = [&](std::size_t) {
    queue_callback(rt_, callback);
    if (throws) throw std::runtime_error("hook failed");
  };
  b.add_hook(scribe, 0);
  const Variable from_a = scale(a, 1);
  const Variable from_b = scale(b, 1);
  const Variable loss = sum(mul(from_a, from_b));

  EXPECT_THROW(loss.backward(true), std::runtime_error);
  EXPECT_FALSE(a.grad().defined());
  EXPECT_EQ(rt_.runtime().graph_task(), nullptr);
  EXPECT_TRUE(rt_.runtime().grad_enabled());
  EXPECT_FALSE(late);

  throws = false;
  a.set_grad({});
  b.set_grad({});
  loss.backward();
  EXPECT_EQ(a.grad().item(), 2);
  EXPECT_EQ(b.grad().item(), 1);
  EXPECT_TRUE(late);
}

TEST_F(EngineTest, HooksRunWithoutRecording) {
  const Variable w = leaf(1);
  Scribe scribe(log_);
  scribe.then = [&](std::size_t) { EXPECT_FALSE(scale(w, 2).requires_grad()); };
  w.add_hook(scribe, 0);

  sum(w).backward();
  EXPECT_EQ(log_.size(), 2U);
}

TEST_F(EngineTest, AGraphMayOutliveItsLeaf) {
  const Variable kept = leaf(3);
  Variable loss;
  {
    const Variable w = leaf(1);
    loss = sum(mul(scale(w, 2), kept));
  }
  EXPECT_NO_THROW(loss.backward());
  EXPECT_EQ(kept.grad().item(), 2);
}

// A chain far deeper than the call stack would allow, run and then freed.
TEST_F(EngineTest, DeepChainsUseNoCallStack) {
  const std::int64_t before = rt_.pool().bytes_in_use();
  {
    const Variable w = leaf(1);
    Variable y = w;
    for (int i = 0; i < 100'000; ++i) y = scale(y, 1);
    y.backward();
    EXPECT_EQ(w.grad().item(), 1);
  }
  EXPECT_EQ(rt_.pool().bytes_in_use(), before);
}

// A ladder has 2^64 paths and 64 * 2 edges: every node runs once.
TEST_F(EngineTest, SharedResultsRunOnce) {
  const Variable w = leaf(1);
  Variable y = w;
  for (int i = 0; i < 64; ++i) y = scale(add(y, y), 0.5);
  y.backward();
  EXPECT_EQ(w.grad().item(), 1);
}

// 20,000 branches wait at once: the queue must not be linear in them.
TEST_F(EngineTest, WideGraphsRunInDescendingOrder) {
  const Variable w = leaf(1);
  std::vector<Variable> branches;
  for (int i = 0; i < 20'000; ++i) branches.push_back(scale(w, 1));
  Variable y = branches[0];
  for (std::size_t i = 1; i < branches.size(); ++i) y = add(branches[i], y);
  y.backward();
  EXPECT_EQ(w.grad().item(), 20'000);
}

TEST_F(EngineTest, NothingIsLeftAfterAStep) {
  const Variable w = leaf({1, 1}, {2});
  const std::int64_t before = rt_.pool().bytes_in_use();

  mse_loss(linear(Variable(rt_.tensor({1, 1}, {1})), w, {}), rt_.tensor({1, 1}, {0})).backward();
  w.set_grad({});

  EXPECT_LE(rt_.pool().bytes_in_use() - before, 512);  // The accumulator of w.
}

}  // namespace
}  // namespace lockstep
