// What a transfer's guard says of one buffer that the transfer has several times.
#include "lockstep/sim/group/detail/memory/memory_guard.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

using Floats = std::vector<float>;

TEST(MemoryGuardTest, ABufferGivenTwiceIsReportedOnce) {
  Floats data{1, 2, 3, 4};
  std::vector<Memory> inputs;
  std::vector<Memory> outputs(2, Memory::of(std::span(data)));
  StandIns stand_ins;
  MemoryGuard guard(stand_ins, 1, inputs, outputs, false);
  EXPECT_EQ(outputs[0].data, outputs[1].data);
  data[2] = 7;
  guard.hand_back();
  EXPECT_EQ(guard.written().size(), 1U);
  EXPECT_EQ(data, (Floats{1, 2, 3, 4}));
  EXPECT_EQ(stand_ins.find(Memory::of(std::span(data))), nullptr);
}

TEST(MemoryGuardTest, ASourceGivenTwiceIsGivenBackWhenBothTransfersHaveEnded) {
  Floats data{1, 2, 3, 4};
  Floats result(4);
  std::vector<Memory> none;
  std::vector<Memory> outputs{Memory::of(std::span(data))};
  StandIns stand_ins;
  MemoryGuard first(stand_ins, 1, none, outputs, false);
  std::vector<Memory> inputs(2, Memory::of(std::span(data)));
  std::vector<Memory> results{Memory::of(std::span(result))};
  MemoryGuard second(stand_ins, 2, inputs, results, false);
  EXPECT_EQ(inputs[0].data, outputs[0].data);
  first.hand_back();
  EXPECT_NE(stand_ins.find(Memory::of(std::span(data))), nullptr);
  second.hand_back();
  EXPECT_EQ(stand_ins.find(Memory::of(std::span(data))), nullptr);
}

}  // namespace
}  // namespace lockstep::sim
