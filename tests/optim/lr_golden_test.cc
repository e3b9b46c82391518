// Two hundred steps of every schedule, bit for bit against a real PyTorch.
#include <gtest/gtest.h>

#include "tests/optim/lr_case.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;

/// The case's arguments without and with the optimizer, which golden::Case calls its kind.
std::vector<std::string> words_of(const golden::Case& one) {
  std::vector<std::string> words = one.arguments;
  words.insert(words.begin(), one.kind);
  return words;
}

/// What a loop gets that starts the schedule one step late.
std::vector<std::int64_t> late_rates(LrCase& one) {
  std::vector<std::int64_t> numbers;
  one.note(numbers);
  one.note(numbers);
  for (std::int64_t epoch = 0; epoch + 1 < one.n_steps(); ++epoch) {
    one.step(epoch);
    one.note(numbers);
  }
  return numbers;
}

TEST(LrGoldenTest, RatesAndMomentaHaveTheBitsOfPyTorch) {
  const std::vector<golden::Case> cases = golden::read("schedules.txt");
  ASSERT_EQ(cases.size(), 91U);
  for (const golden::Case& one : cases) {
    PlainRuntime rt;
    LrCase schedule(rt.runtime(), words_of(one));

    EXPECT_EQ(golden::listed(schedule.rates()), one.values) << one.text();
  }
}

TEST(LrGoldenTest, AScheduleThatIsOneStepLateIsNoticed) {
  for (const golden::Case& one : golden::read("schedules.txt")) {
    PlainRuntime rt;
    LrCase schedule(rt.runtime(), words_of(one));
    // The two that never change a rate after the kick cannot be late.
    const bool constant = one.text().find("step 500") != std::string::npos ||
                          one.text().find("constant 0.0") != std::string::npos ||
                          one.text().find("constant 1.0") != std::string::npos;
    if (constant) continue;

    EXPECT_NE(golden::listed(late_rates(schedule)), one.values) << one.text();
  }
}

TEST(LrGoldenTest, TheClosedFormOfAnAnnealedRateIsNoticed) {
  int n_drifted = 0;
  for (const golden::Case& one : golden::read("schedules.txt")) {
    if (one.text().find("- cosine 50 ") == std::string::npos) continue;
    PlainRuntime rt;
    LrCase schedule(rt.runtime(), words_of(one));
    std::vector<std::int64_t> numbers;
    schedule.note(numbers);
    for (std::int64_t epoch = 1; epoch <= schedule.n_steps(); ++epoch) {
      dynamic_cast<RuleLr&>(*schedule.scheduler).step_to(static_cast<double>(epoch));
      schedule.note(numbers);
    }
    EXPECT_NE(golden::listed(numbers), one.values);
    ++n_drifted;
  }
  EXPECT_EQ(n_drifted, 1);
}

/// Saves in the middle, loads into new objects, continues.
std::vector<std::int64_t> resumed_rates(const golden::Case& one) {
  PlainRuntime rt;
  LrCase first(rt.runtime(), words_of(one));
  std::vector<std::int64_t> numbers;
  first.note(numbers);
  std::int64_t epoch = 0;
  for (; epoch < 83; ++epoch) {
    first.step(epoch);
    first.note(numbers);
  }
  LrCase second(rt.runtime(), words_of(one));
  for (std::size_t g = 0; g < second.optimizer->groups().size(); ++g) {
    static_cast<GroupOptions&>(second.optimizer->groups()[g]) = first.optimizer->groups()[g];
  }
  if (first.plateau) {
    second.plateau->load_state(first.plateau->state());
  } else {
    second.scheduler->load_state(first.scheduler->state());
  }
  for (; epoch < second.n_steps(); ++epoch) {
    second.step(epoch);
    second.note(numbers);
  }
  return numbers;
}

TEST(LrGoldenTest, AScheduleThatIsSavedAndLoadedContinuesWithTheSameBits) {
  for (const golden::Case& one : golden::read("schedules.txt")) {
    EXPECT_EQ(golden::listed(resumed_rates(one)), one.values) << one.text();
  }
}

}  // namespace
}  // namespace lockstep::optim
