#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "lockstep/formats/json_text.h"
#include "lockstep/harness/rounding/growth.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownSteps = 12;

std::string ulps_text(const SeriesStep& step) {
  if (step.ulps == std::numeric_limits<std::uint64_t>::max()) return "a NaN on one side";
  return fmt::format("{} ulp", step.ulps);
}

std::string summary_of(const Growth& growth) {
  const SeriesStep& start = growth.steps[growth.begins.value_or(0)];
  std::string text = fmt::format("step {} {}", start.step, ulps_text(start));
  if (growth.factor) text += fmt::format(", {:.3g} x per step", *growth.factor);
  switch (growth.verdict) {
    case GrowthVerdict::kEqual:
      return fmt::format("equal: the same bits after each of {} steps", growth.steps.size());
    case GrowthVerdict::kGrowth:
      return "growth from rounding: " + text;
    case GrowthVerdict::kLargeStart:
      return "growth from a start that rounding in storage does not explain: " + text;
    case GrowthVerdict::kJump:
      return "a jump: " + text;
  }
  return "";
}

std::string step_text(const SeriesStep& step) {
  if (step.n_different == 0) return fmt::format("  step {}: equal\n", step.step);
  return fmt::format("  step {}: {} at most, {}[{}]; {} of {} elements; {:.3g} ulp in the norm\n",
                     step.step,
                     ulps_text(step),
                     step.tensor,
                     step.element,
                     step.n_different,
                     step.n_elements,
                     step.distance);
}

std::string jump_text(const Growth& growth) {
  constexpr std::size_t kFewestSteps = 5;
  if (growth.steps.size() - *growth.begins < kFewestSteps) {
    return "  fewer than five steps differ: too few to distinguish a jump from growth\n";
  }
  if (!growth.largest) return "  no step grows by more than rounding in storage\n";
  return fmt::format(
      "  largest growth factor {:.3g} (step {}); the others average {:.3g} (p = {:.2g})\n",
      growth.largest->factor,
      growth.largest->step,
      growth.largest->others,
      growth.largest->chance);
}

}  // namespace

std::string growth_text(const Growth& growth) {
  std::string text = summary_of(growth) + "\n";
  if (!growth.begins) return text;
  const std::size_t begins = *growth.begins;
  if (begins > 0) text += fmt::format("  equal until step {}\n", growth.steps[begins - 1].step);
  const std::size_t end = std::min(growth.steps.size(), begins + kShownSteps);
  for (std::size_t i = begins; i < end; ++i) {
    text += step_text(growth.steps[i]);
  }
  if (end < growth.steps.size()) {
    text += fmt::format("  and {} more steps (--json lists all)\n", growth.steps.size() - end);
  }
  text += jump_text(growth);
  if (growth.verdict == GrowthVerdict::kLargeStart) {
    text +=
        "  storing the tensors explains 2 ulp per step; to judge the rest, compare that step's "
        "files with --contributions\n";
  }
  return text;
}

void write_growth(JsonText& out, const Growth& growth) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  out.open_object().key("verdict").text(name_of(growth.verdict)).key("factor");
  growth.factor ? out.real(*growth.factor) : out.null();
  out.key("begins");
  growth.begins ? out.integer(growth.steps[*growth.begins].step) : out.null();
  out.key("largest");
  if (growth.largest) {
    out.open_object().key("step").integer(growth.largest->step);
    out.key("factor").real(growth.largest->factor).key("others").real(growth.largest->others);
    out.key("chance").real(growth.largest->chance).close_object();
  } else {
    out.null();
  }
  out.key("steps").open_array();
  for (const SeriesStep& step : growth.steps) {
    out.open_object().key("step").integer(step.step).key("elements").integer(step.n_elements);
    out.key("different").integer(step.n_different).key("ulps");
    const bool beside_nan = step.ulps == std::numeric_limits<std::uint64_t>::max();
    beside_nan ? out.null() : out.integer(static_cast<std::int64_t>(std::min(step.ulps, kMost)));
    out.key("tensor").text(step.tensor).key("element").integer(step.element);
    out.key("distance").real(step.distance).close_object();
  }
  out.close_array().close_object();
}

}  // namespace lockstep
