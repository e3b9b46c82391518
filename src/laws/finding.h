// A law broken at a place, with everything a human or a test wants to know about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/types.h"
#include "lockstep/laws/causes.h"

namespace lockstep {

/// Where and how a law was broken. Fields that do not apply stay empty.
struct Finding {
  std::string law = {};        ///< Stable id: "replicas-equal".
  std::string message = {};    ///< One sentence for humans, without the place prefix.
  Cause cause = Cause::kNone;  ///< The likely one.
  std::string event = {};      ///< "step", "grad.post", "wrap", "collective", ...
  std::string tensor = {};
  std::string field = {};               ///< Differing signature field: "op", "count", ...
  std::string site = {};                ///< Call site on the (first) offending rank: "save.py:12".
  std::string other_site = {};          ///< The site it was compared with.
  std::vector<Rank> ranks = {};         ///< The minority, or the offenders.
  std::vector<Rank> missing = {};       ///< Ranks that never made the call (progress).
  std::vector<double> weights = {};     ///< gradient-mean: the fitted weight of each rank.
  std::vector<double> declared = {};    ///< gradient-mean: the declared ones.
  std::optional<std::int64_t> step;     ///< Optimizer step (0 = first) on the majority.
  std::optional<std::int64_t> seq;      ///< Collective sequence number.
  std::optional<std::int64_t> element;  ///< Flat index of the first differing element, when known.
  std::int32_t attempt = 0;
  std::int32_t epoch = -1;
  std::int32_t group = 0;
};

/// What an advice is about.
enum class AdviceSubject : std::uint8_t {
  kProgram,
  kChecks,  ///< What laws looked at, or left out on purpose.
};

/// Advice is never an error: more reductions than needed, a straggler, sites of one broadcast.
struct Advice {
  std::string id = {};  ///< "A-..."
  std::string message = {};
  AdviceSubject about = AdviceSubject::kProgram;
};

enum class Verdict : std::uint8_t { kHolds, kBroken, kNotCheckable };

/// What one law says about one trace.
struct LawResult {
  std::string law = {};
  Verdict verdict = Verdict::kHolds;
  std::string missing = {};    ///< kNotCheckable: what to add to the trace or the declaration.
  std::int64_t n_checked = 0;  ///< Comparisons made: 0 with kHolds never happens.
  /// First places only: at most one a (tensor or group, attempt).
  std::vector<Finding> findings = {};
  std::vector<Advice> advice = {};
};

}  // namespace lockstep
