// When buffers are broadcast: one forward late, from rank 0.
#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::data_of;
using testing::flat_term;
using testing::forward_backward;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

enum class Mode : std::uint8_t { kTrain, kNoSync, kEval };

void run_forward(Ddp& ddp, Runtime& runtime, const Variable& w, Mode mode) {
  if (mode == Mode::kEval) {
    const NoGradGuard no_grad(runtime);
    ddp.before_forward(false);
    ddp.after_forward(w);
  } else if (mode == Mode::kNoSync) {
    const NoSync no_sync(ddp);
    forward_backward(ddp, [&] { return flat_term(w, 1); });
  } else {
    forward_backward(ddp, [&] { return flat_term(w, 1); });
  }
}

// Whether a forward of each mode, in turn, sent the buffer.
std::vector<bool> broadcasts_of(const std::vector<Mode>& forwards, DdpOptions options = {}) {
  std::vector<bool> sent;
  const MiniResult result = run_mini_world({}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    const Variable buffer = model.buffer("b", {0});
    Ddp ddp(model.state(), rank.group, options);
    float& value = buffer.data().span<float>()[0];
    for (const Mode mode : forwards) {
      value = static_cast<float>(rank.rank + 1);
      run_forward(ddp, rank.runtime, w, mode);
      if (rank.rank == 1) sent.push_back(value == 1.0F);
    }
  });
  EXPECT_TRUE(result.ok()) << result.error(0);
  return sent;
}

TEST(DdpBuffersTest, EverySynchronisingForwardSendsTheBuffers) {
  EXPECT_EQ(broadcasts_of({Mode::kTrain, Mode::kTrain, Mode::kTrain}),
            (std::vector<bool>{true, true, true}));
}

TEST(DdpBuffersTest, TheFirstForwardAfterNoSyncSendsNoBuffers) {
  EXPECT_EQ(broadcasts_of({Mode::kTrain, Mode::kNoSync, Mode::kNoSync, Mode::kTrain, Mode::kTrain}),
            (std::vector<bool>{true, true, false, false, true}));
}

TEST(DdpBuffersTest, TheFirstEvaluationAfterTrainingSendsBuffersAndTheNextTrainingDoesNot) {
  EXPECT_EQ(broadcasts_of({Mode::kTrain, Mode::kEval, Mode::kEval, Mode::kTrain, Mode::kTrain}),
            (std::vector<bool>{true, true, false, false, true}));
}

TEST(DdpBuffersTest, BuffersStayLocalWithoutTheBroadcast) {
  EXPECT_EQ(broadcasts_of({Mode::kTrain, Mode::kTrain}, {.broadcast_buffers = false}),
            (std::vector<bool>{false, false}));
}

TEST(DdpBuffersTest, IgnoredBuffersStayLocal) {
  EXPECT_EQ(broadcasts_of({Mode::kTrain}, {.ignored = {"b"}}), (std::vector<bool>{false}));
}

// Rank 0 evaluates alone: harmless without buffers, a hang with them.
TEST(DdpBuffersTest, EvaluationOnOneRankHangsOnlyIfThereAreBuffers) {
  for (const bool with_buffer : {false, true}) {
    const MiniResult result = run_mini_world({}, [with_buffer](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable w = model.parameter("w", {0});
      if (with_buffer) model.buffer("b", {0});
      Ddp ddp(model.state(), rank.group, {});
      forward_backward(ddp, [&] { return flat_term(w, 1); });
      if (rank.rank != 0) return;
      const NoGradGuard no_grad(rank.runtime);
      ddp.before_forward(false);
    });
    EXPECT_EQ(result.error(0).find("in ddp.buffers: stuck") != std::string::npos, with_buffer);
    EXPECT_EQ(result.error(1), "");
  }
}

TEST(DdpBuffersTest, EachDtypeIsOneMessage) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    const double mine = rank.rank;
    const Variable mean = model.buffer("mean", {mine, mine});
    const Variable steps = model.buffer("steps", {mine}, DType::kI64);
    const Variable var = model.buffer("var", {mine, mine});
    Ddp ddp(model.state(), rank.group, {.init_sync = false});
    ddp.before_forward(true);
    EXPECT_EQ(data_of(mean), (Values{0, 0}));
    EXPECT_EQ(data_of(var), (Values{0, 0}));
    EXPECT_EQ(data_of(steps), (Values{0}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(collectives_of(*result.trace, 1), (Texts{"B f32[4]", "B i64[1]"}));
}

}  // namespace
}  // namespace lockstep
