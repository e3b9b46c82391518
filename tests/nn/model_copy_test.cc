// Which models beside a wrapped one are compared, and when.
#include <functional>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/functional/functions.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/linear.h"
#include "lockstep/trace/recorder.h"

#include "tests/support/test_runtime.h"

namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// What a wrapper of a layer says: whether parameters are like its own is up to the test.
class Wrapped final : public StateSource {
 public:
  void record_state(StatePoint /*point*/) override {}

  void record_frozen(StatePoint /*point*/) override {}

  void record_lone(LonePoint /*point*/) override {}

  bool record_used() override { return false; }

  std::size_t n_parameters() const override { return 2; }

  bool is_like(std::span<const NameId> names,
               std::span<const Tensor* const> tensors) const override {
    return names.size() == 2 && tensors.size() == 2 && tensors[0]->n_elems() == n_weights;
  }

  bool is_apart() const override { return apart; }

  std::int64_t n_weights = 4;
  bool apart = false;
};

/// The names of auxiliary parameters, joined, an entry per event, after the synchronising forward.
class Copies final : public EventSink {
 public:
  void on_event(const Event& event, const NameTable& names) override {
    const auto* state = std::get_if<StateEvent>(&event.body);
    if (state == nullptr || state->kind != StateKind::kAuxiliary) return;
    std::string line = std::to_string(event.at.wrapper) + "@" + std::to_string(event.at.sync);
    for (const NameId name : names.layout(state->layout))
      line += " " + std::string(names.text(name));
    lines.push_back(line);
  }

  std::vector<std::string> lines;
};

class ModelCopyTest : public ::testing::Test {
 protected:
  ModelCopyTest() {
    rt_.runtime.set_recorder(&recorder_);
    recorder_.set_source(recorder_.open_wrapper(), &wrapped_);
    recorder_.position(0).opt = 1;
    recorder_.position(0).sync = 0;
  }

  /// Calls `module` at this synchronising forward.
  void call(Module& module, std::int32_t sync, std::int64_t in = 2) {
    recorder_.position(0).sync = sync;
    const NoGradGuard no_grad(rt_.runtime);
    (void)module(Variable(Tensor::zeros(rt_.runtime, {1, in}, DType::kF32)));
  }

  lockstep::testing::TestRuntime rt_;
  lockstep::testing::TestHost host_;
  NameTable names_;
  Copies copies_;
  Recorder recorder_{Rank{0}, host_, names_, copies_, RecordOptions{}};
  Wrapped wrapped_;
  Generator init_{1};
};

TEST_F(ModelCopyTest, ACopyIsRecordedWhereItIsCalledAtForwardsThatGrowApart) {
  Linear copy(rt_.runtime, 2, 2, init_);
  for (std::int32_t sync = 0; sync < 9; ++sync) call(copy, sync);
  EXPECT_THAT(copies_.lines,
              ElementsAre("0@0 copy/weight copy/bias",
                          "0@2 copy/weight copy/bias",
                          "0@4 copy/weight copy/bias",
                          "0@8 copy/weight copy/bias"));
}

TEST_F(ModelCopyTest, NothingIsKnownBeforeTheFirstStep) {
  Linear copy(rt_.runtime, 2, 2, init_);
  recorder_.position(0).opt = 0;
  call(copy, 0);
  EXPECT_THAT(copies_.lines, IsEmpty());
  recorder_.position(0).opt = 1;
  call(copy, 1);
  EXPECT_EQ(copies_.lines.size(), 1U);
}

TEST_F(ModelCopyTest, ModelsOfOtherShapesAndWrappedModelsAreNotCopies) {
  Linear other(rt_.runtime, 3, 2, init_);
  call(other, 0, 3);
  Linear reduced(rt_.runtime, 2, 2, init_);
  for (const Variable& parameter : reduced.parameters()) parameter.state().wrapper = 0;
  call(reduced, 0);
  ReLU relu(rt_.runtime);
  call(relu, 0);
  EXPECT_THAT(copies_.lines, IsEmpty());
}

TEST_F(ModelCopyTest, ACopyIsRecordedOnlyOnceItIsTheLastOne) {
  Linear first(rt_.runtime, 2, 2, init_);
  {
    Linear second(rt_.runtime, 2, 2, init_);
    call(second, 0);
  }
  EXPECT_THAT(copies_.lines, IsEmpty());
  call(first, 0);
  EXPECT_EQ(copies_.lines.size(), 1U);
}

TEST_F(ModelCopyTest, WhatABackwardReachesIsEachRanksOwn) {
  Linear adapted(rt_.runtime, 2, 2, init_);
  const auto adapt = [&] {
    const Tensor x = Tensor::full(rt_.runtime, {1, 2}, DType::kF32, 1.0);
    sum(adapted.forward(Variable(x))).backward();
  };
  call(adapted, 0);
  EXPECT_EQ(copies_.lines.size(), 1U);
  adapt();
  call(adapted, 2);
  EXPECT_EQ(copies_.lines.size(), 1U);
}

TEST_F(ModelCopyTest, CopiesOfModelsThatRanksTrainAloneAreNotRecorded) {
  Linear copy(rt_.runtime, 2, 2, init_);
  wrapped_.apart = true;
  call(copy, 0);
  EXPECT_THAT(copies_.lines, IsEmpty());
  wrapped_.apart = false;
  call(copy, 0);
  EXPECT_EQ(copies_.lines.size(), 1U);
}

TEST_F(ModelCopyTest, AModelLikeTwoWrappedOnesIsACopyOfNeither) {
  Wrapped other;
  const std::int32_t wrapper = recorder_.open_wrapper();
  recorder_.set_source(wrapper, &other);
  Linear copy(rt_.runtime, 2, 2, init_);
  call(copy, 0);
  EXPECT_THAT(copies_.lines, IsEmpty());
  recorder_.set_source(wrapper, nullptr);
}

}  // namespace
}  // namespace lockstep::nn
