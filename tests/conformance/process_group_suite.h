// What every ProcessGroup promises, written once and run against each backend.
//
// A backend is a way to run a program on N ranks, each with its world group. Its ranks may be
// fibers, processes or machines: a program asserts inside itself, on its own rank, and shares no
// memory with other ranks. What ranks learn of one another they learn through the group.
//
// A backend joins with a <backend>_test.cc that says
//
//   INSTANTIATE_TEST_SUITE_P(Gloo, ProcessGroupConformance,
//                            ::testing::ValuesIn(promises_of({gloo_of(2), gloo_of(3)})),
//                            conformance_name);
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/comm/process_group.h"

namespace lockstep::conformance {

using Program = std::function<void(ProcessGroup&)>;

struct Backend {
  std::string name;  ///< Letters and digits.
  std::int32_t n_ranks = 1;
  /// Calls `program` once on every rank and returns after all have ended. An exception or a failed
  /// assertion of any rank fails the calling test, also when the rank is another process.
  std::function<void(const Program&)> run;

  friend std::ostream& operator<<(std::ostream& out, const Backend& backend) {
    return out << backend.name;
  }
};

/// One promise.
struct Case {
  std::string name;
  Program program;
  std::int32_t min_ranks = 1;  ///< With fewer ranks there is no peer to talk to.

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

/// All of them; the lists live in suite_*.cc.
std::vector<Case> process_group_cases();

std::vector<Case> collective_cases();
std::vector<Case> reduction_cases();
std::vector<Case> message_cases();
std::vector<Case> group_cases();
std::vector<Case> work_cases();

using Promise = std::tuple<Backend, Case>;

/// Each backend with every case that it has enough ranks for.
std::vector<Promise> promises_of(const std::vector<Backend>& backends);

class ProcessGroupConformance : public ::testing::TestWithParam<Promise> {};

inline std::string conformance_name(
    const ::testing::TestParamInfo<ProcessGroupConformance::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

}  // namespace lockstep::conformance
