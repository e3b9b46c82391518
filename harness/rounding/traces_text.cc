#include <fmt/format.h>
#include <string_view>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/harness/rounding/explain_traces.h"

namespace lockstep {

namespace {

std::string place_of(const ReductionExplanation& one) {
  std::string text = fmt::format("step {} (sync {}), `{}`", one.at.opt, one.at.sync, one.tensor);
  if (!one.ranks.empty()) text += fmt::format(", group of ranks {}", join(one.ranks));
  return text;
}

std::string reduction_text(const ReductionExplanation& one) {
  std::string text =
      fmt::format("{}, {}: {}\n", place_of(one), one.which, sentence_of(one.verdict));
  if (one.values) {
    text += tensor_text(*one.values, Combination{.kind = one.kind});
  } else if (!one.note.empty()) {
    text += fmt::format("  {}\n", one.note);
  }
  return text;
}

std::string parting_text(const TracesExplanation& explanation) {
  switch (explanation.parting) {
    case Parting::kNowhere:
      return explanation.first_difference.empty()
                 ? "the traces are equal\n"
                 : "all reductions have equal results: the difference is elsewhere\n";
    case Parting::kReduction:
      return "they diverge in a reduction with equal contributions:\n";
    case Parting::kContributions:
      return fmt::format("they diverge before a reduction: the input of {} already differs\n",
                         place_of(*explanation.first));
  }
  return "";
}

std::string_view headline_of(const TracesExplanation& explanation) {
  const bool elsewhere = explanation.verdict == RoundingVerdict::kNotJudged &&
                         explanation.parting != Parting::kReduction;
  return elsewhere ? "not judged: they diverge outside of reductions"
                   : sentence_of(explanation.verdict);
}

void write_reduction(JsonText& out, const ReductionExplanation& one) {
  out.open_object().key("attempt").integer(one.at.attempt).key("wrapper").integer(one.at.wrapper);
  out.key("sync").integer(one.at.sync).key("step").integer(one.at.opt);
  out.key("ranks").open_array();
  for (const std::int32_t rank : one.ranks) out.integer(rank);
  out.close_array().key("which").text(one.which).key("tensor").text(one.tensor);
  out.key("verdict").text(name_of(one.verdict)).key("contributions").integer(one.n_contributions);
  out.key("reduction").text(one.kind == ResultKind::kMean ? "mean" : "sum");
  out.key("note").text(one.note).key("values");
  one.values ? write_tensor(out, *one.values) : static_cast<void>(out.null());
  out.close_object();
}

}  // namespace

std::string traces_text(const TracesExplanation& explanation) {
  std::string text = std::string(headline_of(explanation)) + "\n";
  if (!explanation.first_difference.empty()) {
    text += fmt::format("first difference: {}\n", explanation.first_difference);
  }
  text += parting_text(explanation);
  if (explanation.parting == Parting::kReduction) text += reduction_text(*explanation.first);
  text += fmt::format(
      "{} of {} reductions of both traces were judged by their values; {} {} not a sum of the "
      "inputs in any order\n",
      explanation.n_judged,
      explanation.n_reductions,
      explanation.n_suspects,
      explanation.n_suspects == 1 ? "result is" : "results are");
  for (const ReductionExplanation& one : explanation.suspects) text += reduction_text(one);
  if (explanation.n_valueless > 0) {
    text +=
        "to judge those without values, record both runs with `lockstep run --values`; for a "
        "PyTorch job, save each rank's input and output of that step, and compare the files with "
        "--contributions\n";
  }
  if (explanation.growth) text += "parameters: " + growth_text(*explanation.growth);
  return text;
}

void write_traces(JsonText& out, const TracesExplanation& explanation) {
  out.open_object().key("lockstep_explain_diff").integer(1);
  out.key("verdict").text(name_of(explanation.verdict));
  out.key("first_difference").text(explanation.first_difference);
  out.key("parting").text(name_of(explanation.parting)).key("first");
  explanation.first ? write_reduction(out, *explanation.first) : static_cast<void>(out.null());
  out.key("reductions").integer(explanation.n_reductions);
  out.key("judged").integer(explanation.n_judged).key("suspects").integer(explanation.n_suspects);
  out.key("listed").open_array();
  for (const ReductionExplanation& one : explanation.suspects) write_reduction(out, one);
  out.close_array().key("growth");
  explanation.growth ? write_growth(out, *explanation.growth) : static_cast<void>(out.null());
  out.close_object();
}

}  // namespace lockstep
