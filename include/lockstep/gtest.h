// Assertions of GoogleTest about runs: a failure says what went wrong and how to repeat it.
//
//   #include <lockstep/gtest.h>
//
//   TEST(MyTraining, KeepsTheLaws) {
//     const auto run = lockstep::run_ranks({.ranks = 4}, my_program);
//     EXPECT_LAWS_HOLD(run);
//   }
//
// A failure prints the whole report: verdict, likely causes, findings as sentences, and the value
// of RunOptions::replay that repeats the schedule. Only programs that include this header need
// GoogleTest; the library does not link it.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "lockstep/run.h"
#include "lockstep/sim/explore/marks.h"

namespace lockstep {

/// Success when every checked law holds and every rank finished; else the report as a message.
inline ::testing::AssertionResult laws_hold(const char* /*expression*/, const Report& report) {
  if (report.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << render_text(report, TextOptions{});
}

/// Success when each mark was reached; else those that were not, with their lines.
inline ::testing::AssertionResult all_reached(const char* /*expression*/, const Marks& marks) {
  if (marks.unreached().empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << marks.text();
}

template <typename R>
::testing::AssertionResult laws_hold(const char* expression, const RunResult<R>& run) {
  return laws_hold(expression, run.report);
}

}  // namespace lockstep

/// Fails, and continues, unless the laws hold in a RunResult or a Report. The argument may be the
/// call of run_ranks itself, and is evaluated once.
#define EXPECT_LAWS_HOLD(...) EXPECT_PRED_FORMAT1(::lockstep::laws_hold, (__VA_ARGS__))
/// Fails, and continues, if a mark of a campaign was never reached (lockstep/explore.h).
#define EXPECT_ALL_REACHED(...) EXPECT_PRED_FORMAT1(::lockstep::all_reached, (__VA_ARGS__))
/// Fails and leaves the function.
#define ASSERT_LAWS_HOLD(...) ASSERT_PRED_FORMAT1(::lockstep::laws_hold, (__VA_ARGS__))
