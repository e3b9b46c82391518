// Healthy programs with one mistake each: what spares the healthy ones must not spare these.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/run.h"

namespace lockstep::programs {

struct BrokenTwin {
  std::string_view name;
  std::int32_t ranks = 2;
  void (*program)(RankContext&) = nullptr;
  /// What must be said: a law and a piece of its sentence, or an advice and a piece of it.
  std::string_view law = {};
  std::string_view says = {};
};

std::vector<BrokenTwin> averaging_twins();
std::vector<BrokenTwin> reduction_twins();
std::vector<BrokenTwin> loop_twins();
std::vector<BrokenTwin> exchange_twins();
std::vector<BrokenTwin> window_twins();
std::vector<BrokenTwin> worded_twins();
std::vector<BrokenTwin> model_parallel_twins();

}  // namespace lockstep::programs
