// Runs generated jobs in the simulator and writes down everything that can be compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/sim/session/session.h"

#include "tests/programs/program.h"

namespace lockstep::programs {

/// A mistake planted in the run, to see that comparisons notice.
enum class Mistake : std::uint8_t {
  kNone,
  kDivideAfter,  ///< Gradients are summed first and divided then.
  kOtherOrder,   ///< Sums run in the order of ranks.
  kMeanOfMeans,  ///< Each rank divides by the sum over ranks of its own count, not by N.
  kOneBucket,    ///< The caps are ignored.
};

struct RunSettings {
  Compat compat = Compat::kTorch2;
  std::string strategy = "run-to-block";
  std::uint64_t schedule_seed = 0;
  Mistake mistake = Mistake::kNone;
};

/// What a run left behind, by key: "g <rank> <step>" gradients, p parameters, b buffers, k buckets,
/// u used map; "x <rank>" error, "c <rank>" calls.
using Answer = std::map<std::string, std::string>;

Answer run_program(sim::Session& session, const Program& program, const RunSettings& settings);

/// "AG i64 1", "B0 f32 12", "AR f32 7", "ARmax i64 1": what a rank posted.
std::vector<std::string> calls_of(const MemoryTrace& trace, std::int32_t rank);

/// The calls inside an answer.
std::vector<std::string> calls_in(const Answer& answer, std::int32_t rank);

/// "key=value;key=value": one line.
std::string text_of(const Answer& answer);

}  // namespace lockstep::programs
