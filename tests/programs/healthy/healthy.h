// Healthy training programs: each does something that a naive checker might take for a bug.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/run.h"

namespace lockstep::programs {

struct HealthyProgram {
  std::string_view name;
  std::int32_t ranks = 2;
  void (*program)(RankContext&) = nullptr;
  std::string_view advice = {};  ///< Advice that it deserves: an id, or empty.
};

// By theme; healthy_test.cc runs them all.
std::vector<HealthyProgram> plain_programs();
std::vector<HealthyProgram> gradient_programs();
std::vector<HealthyProgram> wrapper_programs();
std::vector<HealthyProgram> group_programs();
std::vector<HealthyProgram> data_programs();
std::vector<HealthyProgram> state_programs();
std::vector<HealthyProgram> loop_programs();
std::vector<HealthyProgram> piece_programs();
std::vector<HealthyProgram> exchange_programs();
std::vector<HealthyProgram> window_programs();
std::vector<HealthyProgram> worded_programs();
std::vector<HealthyProgram> model_parallel_programs();

}  // namespace lockstep::programs
