// The gpt model and the text it reads.
#include <algorithm>
#include <array>

#include "lockstep/harness/format/sections.h"

namespace lockstep {

GptSpec read_gpt(TableReader& model, Problem& problem) {
  GptSpec gpt;
  gpt.vocab = model.integer("vocab", 0, 1);
  gpt.context = model.integer("context", 0, 1);
  gpt.layers = model.small("layers", static_cast<std::int32_t>(gpt.layers), 1, 10'000);
  gpt.heads = model.integer("heads", gpt.heads, 1);
  gpt.width = model.integer("width", gpt.width, 1);
  gpt.dropout = model.number_from("dropout", 0.0, 0.0);
  if (model.has("dropout_seed")) {
    gpt.dropout_seed = model.seed("dropout_seed");
  }
  gpt.tied = model.flag("tied", true);
  for (const std::int64_t rows : {gpt.vocab, gpt.context, 4 * gpt.width}) {
    const std::array<std::int64_t, 2> sizes = {rows, gpt.width};
    if (is_affordable(sizes)) continue;
    problem.report("this gpt has a layer of more than 2^31 weights", model.where());
  }
  if (gpt.width % gpt.heads != 0) {
    problem.report("'model.width' must be a multiple of 'model.heads'", model.where("width"));
  }
  if (model.has("widths")) {
    problem.report("a gpt has one 'model.width', not 'widths'", model.where("widths"));
  }
  if (gpt.dropout > 1.0) {
    problem.report("'model.dropout' is a probability", model.where("dropout"));
  }
  return gpt;
}

namespace {

bool all_tokens(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) {
    return value >= 0.0 && value == static_cast<double>(static_cast<std::int64_t>(value));
  });
}

/// Largest token of the rows, -1 when something is not a token.
std::int64_t largest_token(const data::Dataset& rows) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    for (const std::span<const double> values : {rows.features(i), rows.targets(i)}) {
      if (!all_tokens(values)) return -1;
      largest = std::max(largest, *std::max_element(values.begin(), values.end()));
    }
  }
  return static_cast<std::int64_t>(largest);
}

}  // namespace

void fit_gpt(Job& job, const std::string& where, Problem& problem) {
  const data::Dataset& rows = *job.train;
  GptSpec& gpt = job.model.gpt;
  if (job.loss.kind != LossKind::kCrossEntropy || rows.target_columns() != rows.feature_columns()) {
    problem.report(
        "a gpt predicts the next token: it needs loss.kind = \"cross-entropy\" and a target for "
        "each column, as data.kind = \"text\" has them",
        where);
    return;
  }
  const std::int64_t held_out = job.holdout == nullptr ? 0 : largest_token(*job.holdout);
  const std::int64_t trained = largest_token(rows);
  const std::int64_t largest = std::max(trained, held_out);
  if (std::min(trained, held_out) < 0) {
    problem.report("a gpt reads whole numbers from 0, its tokens", where);
    return;
  }
  if (gpt.vocab == 0) gpt.vocab = largest + 1;
  if (gpt.context == 0) gpt.context = rows.feature_columns();
  if (gpt.vocab <= largest) {
    problem.report("the model has " + std::to_string(gpt.vocab) + " tokens, the data have " +
                       std::to_string(largest + 1),
                   where);
  }
  if (gpt.context < rows.feature_columns()) {
    problem.report("the model's context of " + std::to_string(gpt.context) +
                       " is shorter than the data's " + std::to_string(rows.feature_columns()) +
                       " columns",
                   where);
  }
  if (job.loop.eval.every_epochs > 0 && job.loop.eval.metric != EvalMetric::kCrossEntropy) {
    problem.report("a gpt is evaluated by 'loop.eval.metric = \"cross-entropy\"'", where);
  }
}

}  // namespace lockstep
