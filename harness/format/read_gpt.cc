// The gpt model and the text it reads.
#include <algorithm>
#include <array>

#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {

namespace {

const Section<GptSpec>& keys_of_gpt() {
  static const Section<GptSpec> section("model", {"gpt"}, [](Section<GptSpec>& it) {
    it.differs_by_rank();
    it.add("vocab", &GptSpec::vocab, "Tokens; at least as many as the data have.")
        .at_least(1)
        .shown("that of the data")
        .counts();
    it.add("context", &GptSpec::context, "The longest text it can read, in tokens.")
        .at_least(1)
        .shown("the data's columns")
        .counts();
    it.add("layers", &GptSpec::layers, "Blocks.").between(1, 10'000).counts();
    it.add("heads", &GptSpec::heads, "Attention heads of a block.").at_least(1).counts();
    it.add("width", &GptSpec::width, "Elements of a token's vector: a multiple of `heads`.")
        .at_least(1)
        .counts();
    it.add("dropout", &GptSpec::dropout, "Probability, up to 1, that an element is dropped.")
        .from(0.0);
    it.add("dropout_seed",
           &GptSpec::dropout_seed,
           "Masks come from a stream of their own, which starts at this seed plus the rank.")
        .shown("none: masks continue the stream of the initial values");
    it.add("tied", &GptSpec::tied, "The last layer uses the token table.");
  });
  return section;
}

}  // namespace

SchemaSection gpt_section() { return keys_of_gpt().described(); }

GptSpec read_gpt(TableReader& model, Problem& problem) {
  GptSpec gpt;
  keys_of_gpt().read(model, gpt);
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
