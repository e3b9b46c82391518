#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <string_view>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/harness/rounding/explain_results.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownRuns = 4;
constexpr std::size_t kShownContributions = 8;

std::string ulps_text(std::uint64_t ulps) {
  if (ulps == std::numeric_limits<std::uint64_t>::max()) return "a NaN on one side";
  return fmt::format("{} ulp", ulps);
}

std::string orders_text(const ResultSide& side, std::int64_t n_elements) {
  if (side.only_if) {
    return fmt::format(
        "possible only if {}: {} of {} elements are outside, {:.3g} x the bound at "
        "most, at element {}",
        name_of(*side.only_if),
        side.n_outside,
        n_elements,
        side.ratio,
        side.worst);
  }
  if (!side.runs) {
    return fmt::format(
        "no known order; {:.3g} x the bound at most, at element {}", side.ratio, side.worst);
  }
  const std::vector<OrderRun>& runs = *side.runs;
  if (runs.size() == 1) return text_of(runs.front().order) + ", all elements";
  std::string text;
  for (std::size_t i = 0; i < std::min(kShownRuns, runs.size()); ++i) {
    text += fmt::format("{}{} for [{}, {})",
                        i == 0 ? "" : "; ",
                        text_of(runs[i].order),
                        runs[i].begin,
                        runs[i].end);
  }
  if (runs.size() > kShownRuns) {
    text +=
        fmt::format("; {} more runs of {} elements in all", runs.size() - kShownRuns, n_elements);
  }
  return text;
}

std::string_view reduction_text(const Combination& reduction) {
  switch (reduction.kind) {
    case ResultKind::kSum:
      return "sum";
    case ResultKind::kMean:
      return "mean";
    case ResultKind::kScaledSum:
      return "scaled sum";
  }
  return "";
}

std::string derivation_text(const ImpossibleElement& element, const Combination& reduction) {
  std::vector<std::string> shown;
  for (const double each : element.contributions) {
    if (shown.size() == kShownContributions) {
      shown.emplace_back("...");
      break;
    }
    shown.push_back(exact(each));
  }
  std::string text = fmt::format(
      "  element {} of the {} result is {}\n"
      "    the {} of {}\n",
      element.element,
      element.is_left ? "first" : "second",
      exact(element.result),
      reduction_text(reduction),
      join(shown));
  if (std::isfinite(element.distance)) {
    text += fmt::format("    is {} without rounding, {} away from it\n",
                        exact(element.bound.exact),
                        exact(element.distance));
    text += element.bound.radius > 0.0
                ? fmt::format(
                      "    no order is further away than {:.6g}, from the sum {:.6g} of absolute "
                      "values\n",
                      element.bound.radius,
                      element.bound.absolute)
                : "    and no order rounds: each partial sum is a number of this type\n";
  } else if (std::isfinite(element.bound.exact) && element.bound.absolute > 0.0) {
    text += fmt::format("    is {} without rounding, and no order overflows\n",
                        exact(element.bound.exact));
  } else {
    text += "    is not finite in every order, and never this\n";
  }
  if (!element.looks_like.empty()) text += fmt::format("    it is {}\n", element.looks_like);
  return text;
}

void write_side(JsonText& out, std::string_view key, const std::optional<ResultSide>& side) {
  out.key(key);
  if (!side) {
    out.null();
    return;
  }
  out.open_object().key("runs");
  if (side->runs) {
    out.open_array();
    for (const OrderRun& run : *side->runs) {
      out.open_object().key("shape").text(name_of(run.order.shape));
      out.key("first").integer(run.order.first).key("mean").text(name_of(run.order.mean));
      out.key("begin").integer(run.begin).key("end").integer(run.end).close_object();
    }
    out.close_array();
  } else {
    out.null();
  }
  out.key("outside").integer(side->n_outside).key("worst").integer(side->worst);
  out.key("ratio").real(side->ratio).key("only_if");
  side->only_if ? out.text(name_of(*side->only_if)) : out.null();
  out.close_object();
}

void write_impossible(JsonText& out, const std::optional<ImpossibleElement>& element) {
  out.key("impossible");
  if (!element) {
    out.null();
    return;
  }
  out.open_object().key("result").text(element->is_left ? "first" : "second");
  out.key("element").integer(element->element).key("value").real(element->result);
  out.key("contributions").open_array();
  for (const double each : element->contributions) out.real(each);
  out.close_array().key("exact").real(element->bound.exact);
  out.key("distance").real(element->distance).key("radius").real(element->bound.radius);
  out.key("looks_like").text(element->looks_like).close_object();
}

}  // namespace

std::string_view sentence_of(RoundingVerdict verdict) {
  switch (verdict) {
    case RoundingVerdict::kEqual:
      return "equal: the same bits";
    case RoundingVerdict::kNamedOrders:
      return "rounding: both are sums of these contributions in known orders";
    case RoundingVerdict::kWithinBound:
      return "rounding is possible: both lie in the interval of all summation orders of these "
             "contributions";
    case RoundingVerdict::kOnlyIf:
      return "rounding only if: no summation order in this type gives one of them, but another "
             "method may";
    case RoundingVerdict::kNotJudged:
      return "not judged: they differ, and the contributions are not known";
    case RoundingVerdict::kImpossible:
      return "impossible: no summation order of these contributions gives this result";
  }
  return "";
}

std::string tensor_text(const TensorExplanation& tensor, const Combination& reduction) {
  std::string text = fmt::format("{}: {} ({} of {} elements of {} differ",
                                 tensor.tensor,
                                 name_of(tensor.verdict),
                                 tensor.n_different,
                                 tensor.n_elements,
                                 name_of(tensor.type));
  if (tensor.n_different > 0) {
    text += fmt::format(", most at element {}: {}", tensor.widest, ulps_text(tensor.ulps));
  }
  text += ")\n";
  if (tensor.left && tensor.right) {
    text += fmt::format("  first:  {}\n", orders_text(*tensor.left, tensor.n_elements));
    text += fmt::format("  second: {}\n", orders_text(*tensor.right, tensor.n_elements));
    const std::int64_t outside = tensor.left->n_outside + tensor.right->n_outside;
    if (outside > 1) text += fmt::format("  {} results are outside of their interval\n", outside);
  }
  if (tensor.impossible) text += derivation_text(*tensor.impossible, reduction);
  return text;
}

void write_tensor(JsonText& out, const TensorExplanation& tensor) {
  out.open_object().key("tensor").text(tensor.tensor).key("verdict").text(name_of(tensor.verdict));
  out.key("type").text(name_of(tensor.type)).key("elements").integer(tensor.n_elements);
  out.key("different").integer(tensor.n_different).key("widest").integer(tensor.widest);
  out.key("ulps");
  if (tensor.ulps == std::numeric_limits<std::uint64_t>::max()) {
    out.null();
  } else {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    out.integer(static_cast<std::int64_t>(std::min(tensor.ulps, kMost)));
  }
  write_side(out, "first", tensor.left);
  write_side(out, "second", tensor.right);
  write_impossible(out, tensor.impossible);
  out.close_object();
}

std::string explanation_text(const Explanation& explanation) {
  std::string text = std::string(sentence_of(explanation.verdict())) + "\n";
  std::size_t n_equal = 0;
  for (const TensorExplanation& tensor : explanation.tensors) {
    if (tensor.verdict == RoundingVerdict::kEqual) {
      ++n_equal;
    } else {
      text += tensor_text(tensor, explanation.reduction);
    }
  }
  if (n_equal > 0)
    text += fmt::format("{} of {} tensors are equal\n", n_equal, explanation.tensors.size());
  if (explanation.verdict() == RoundingVerdict::kNotJudged && explanation.n_contributions == 0) {
    text +=
        "pass the contributions, one file per rank: --contributions RANK0 --contributions RANK1 "
        "...\n";
  }
  return text;
}

void write_explanation(JsonText& out, const Explanation& explanation) {
  out.open_object().key("lockstep_explain_diff").integer(1);
  out.key("verdict").text(name_of(explanation.verdict()));
  out.key("contributions").integer(explanation.n_contributions);
  out.key("reduction").text(reduction_text(explanation.reduction));
  out.key("factor");
  const Combination& reduction = explanation.reduction;
  reduction.kind == ResultKind::kScaledSum ? out.real(reduction.given) : out.null();
  out.key("tensors").open_array();
  for (const TensorExplanation& tensor : explanation.tensors) {
    write_tensor(out, tensor);
  }
  out.close_array().close_object();
}

}  // namespace lockstep
