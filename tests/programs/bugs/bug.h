// Reported bugs as a user would write them: ordinary programs that record nothing by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/run.h"

namespace lockstep::programs {

/// Which of a program's forms runs. The forms differ in a line or two.
struct Form {
  bool fixed = false;
  bool annotated = false;  ///< Says with RankContext::annotate() what no library call can know.
};

/// Where a checker must point, from reasoning about the bug.
struct Expected {
  std::string_view law = {};    ///< Or the id of an advice, or "contract": the program throws.
  std::string_view cause = {};  ///< Of a law.
  std::string_view says = {};   ///< Of an advice or a contract: words that name the place.
  std::vector<std::int32_t> ranks = {};   ///< Empty: all alike, or none to blame.
  std::optional<std::int64_t> step = {};  ///< None: outside of steps.
  std::string_view tensor = {};           ///< Empty: no tensor is at fault.
};

/// One row of the zoo, as a program.
struct Bug {
  std::string_view id;
  std::int32_t ranks = 2;
  void (*program)(RankContext&, Form) = nullptr;
  Expected expected = {};
  bool has_annotated_form = false;
  Expected when_annotated = {};  ///< Of the annotated form, where it says more: else no law.
};

// By what they break; bugs_test.cc runs them all.
std::vector<Bug> start_bugs();
std::vector<Bug> gradient_bugs();
std::vector<Bug> call_bugs();
std::vector<Bug> state_bugs();
std::vector<Bug> data_bugs();
std::vector<Bug> input_bugs();
std::vector<Bug> script_bugs();
std::vector<Bug> loop_bugs();
std::vector<Bug> copy_bugs();

}  // namespace lockstep::programs
