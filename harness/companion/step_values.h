// What the ranks of a recorded run held at each optimizer step: samples, gradients, parameters.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

using TensorValues = std::map<std::string, std::span<const double>>;  ///< By qualified name.

/// What of a step is compared with a reference, in the words of events.
enum class ComparedPoint : std::uint8_t {
  kGradUsed,  ///< The gradients that the optimizer consumed.
  kStep,      ///< The parameters that it left.
};
template <>
inline constexpr EnumNames<2> kEnumNames<ComparedPoint> = {"grad.used", "step"};

/// What one event said of several tensors.
struct DigestList {
  LayoutId layout = kNoLayout;
  std::span<const std::uint64_t> digests;
};

/// One micro-step's data on one rank.
struct MicroData {
  std::vector<std::int64_t> ids;  ///< Row ids, as recorded.
  double denominator = 0.0;       ///< What the rank divided its summed loss by.
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;
};

/// One optimizer step on one rank. Values are there where the run recorded them (Recorder's
/// step_values: rank 0 as a rule), digests on every rank. All spans point into the trace.
struct RankStep {
  std::vector<MicroData> micros;
  TensorValues before;  ///< Parameters as the step's first forward found them.
  TensorValues used;    ///< Gradients the optimizer consumed.
  TensorValues after;   ///< Parameters after the step.
  std::vector<DigestList> before_digests;
  std::vector<DigestList> local_digests;  ///< Its own gradients, as the last reduction took them.
  std::vector<DigestList> used_digests;
  std::vector<DigestList> after_digests;
  bool skipped = false;  ///< A gradient scaler left it out.
  double scale = 1.0;    ///< Of the loss, 1 without a gradient scaler.
  std::int32_t epoch = 0;

  bool has_values() const { return !used.empty() || !after.empty(); }
};

/// The steps a rank finished, in order. Requires: the trace outlives the result.
std::vector<RankStep> steps_of(const MemoryTrace& trace, Rank rank);

}  // namespace lockstep
