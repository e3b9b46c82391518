// model: its kind, sizes and initial values.
#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

/// `in` and `out` are the short form of models with one layer.
struct ModelTable : ModelSpec {
  std::int64_t in = 1;
  std::int64_t out = 1;
};

void check_init(TableReader& table, InitSpec& init) {
  if (init.kind != InitKind::kValues || !init.values.empty()) return;
  table.problem().report("model.init.kind = \"values\" needs 'values'", table.where());
}

const Section<InitSpec>& init_section() {
  static const Section<InitSpec> section("model.init", [](Section<InitSpec>& it) {
    it.differs_by_rank();
    it.add("kind", &InitSpec::kind, "How parameters get their first values.").later({"file"});
    it.add("value", &InitSpec::value, "constant: of every element.");
    it.add("values", &InitSpec::values, "values: of all parameters' elements, in order.");
    it.add("seed", &InitSpec::seed, "pytorch, grid: `torch.manual_seed` before construction.")
        .seeds_job();
    it.add("seed_by_rank", &InitSpec::seed_by_rank, "The seed is `seed` + rank.");
    it.add("grid", &InitSpec::grid, "grid: multiples of 2^-grid in [-1, 1].").at_most(30);
    it.check(check_init);
  });
  return section;
}

const Section<ModelTable>& model_section() {
  static const Section<ModelTable> section("model", [](Section<ModelTable>& it) {
    it.differs_by_rank();
    it.add("kind", &ModelSpec::kind, "What is trained.")
        .later({"dropout", "tied", "embedding", "layers"})
        .selects();
    it.add("widths",
           &ModelSpec::widths,
           "Sizes of the layers from inputs to outputs; cnn: filters of each stage, then outputs.")
        .counts();
    it.add("in", &ModelTable::in, "Inputs; instead of `widths`.")
        .at_least(1)
        .of({ModelKind::kLinear})
        .counts();
    it.add("out", &ModelTable::out, "Outputs; instead of `widths`.")
        .at_least(1)
        .of({ModelKind::kLinear})
        .counts();
    it.add("image", &ModelSpec::image, "`[channels, height, width]` of what a row of x holds.")
        .of({ModelKind::kCnn})
        .counts();
    it.add("kernel", &ModelSpec::kernel, "Height and width of the filters, odd.")
        .at_least(1)
        .of({ModelKind::kCnn})
        .counts();
    it.add("batch_norm", &ModelSpec::batch_norm, "A batch norm after each convolution.")
        .of({ModelKind::kCnn});
    it.add("activation", &ModelSpec::activation, "Between layers.").later({"gelu"});
    it.add("checkpoint",
           &ModelSpec::checkpoint,
           "Layers of an mlp or bn are recomputed in the backward (reentrant: all but the first).");
    it.add("bias", &ModelSpec::bias, "Layers add a bias.").except({ModelKind::kScalar});
    it.add("bias", &ModelSpec::bias, "Layers add a bias.").of({ModelKind::kScalar}).preset(false);
    it.add("dtype",
           &ModelSpec::dtype,
           "Of parameters and arithmetic. In 16 bits, initial values are those of f32, rounded.")
        .words({"f32", "f64", "bf16", "f16"})
        .shown("f32; exact: that of `exact`");
    it.add("head", &ModelSpec::head, "twohead: which of its heads the loss uses.");
    it.add("freeze", &ModelSpec::freeze, "Names of parameters without gradient.");
    it.table("init", &ModelSpec::init, init_section(), "First values.");
  });
  return section;
}

/// The widths if a model of this kind can have them.
std::vector<std::int64_t> checked_widths(std::vector<std::int64_t> widths,
                                         ModelKind kind,
                                         TableReader& model) {
  const bool one_layer = kind == ModelKind::kScalar || kind == ModelKind::kLinear;
  const bool two_heads = kind == ModelKind::kTwoHead;
  const bool positive = std::all_of(widths.begin(), widths.end(), [](auto w) { return w > 0; });
  const std::size_t n = widths.size();
  const bool fits = one_layer ? n == 2 : two_heads ? n == 3 : n >= 2;
  bool affordable = true;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    affordable = affordable && is_affordable(std::span(widths).subspan(i, 2));
  }
  if (fits && positive && affordable) return widths;
  if (fits && positive) {
    model.problem().report("'model.widths' ask for a layer of more than 2^31 weights",
                           model.where("widths"));
    return {1, 1, 1};
  }
  const char* number = one_layer ? "two" : two_heads ? "three" : "two or more";
  model.problem().report("'model.widths' of kind \"" + std::string(name_of(kind)) + "\" must be " +
                             number + " positive integers",
                         model.where("widths"));
  return {1, 1, 1};
}

/// Widths as layers see them. Those of the struct are for kinds with hidden layers.
std::vector<std::int64_t> widths_of(TableReader& table, const ModelTable& model) {
  const ModelKind kind = model.kind;
  if (kind != ModelKind::kLinear && (table.has("in") || table.has("out"))) {
    table.problem().report("'model.in' and 'model.out' belong to kind = \"linear\"; '" +
                               std::string(name_of(kind)) + "' takes 'widths'",
                           table.where());
  }
  const TomlNode* given = table.node("widths");
  std::vector<std::int64_t> widths = model.widths;
  if (given == nullptr || given->items.empty()) {
    if (kind == ModelKind::kScalar) widths = {1, 1};
    if (kind == ModelKind::kLinear) widths = {model.in, model.out};
    if (kind != ModelKind::kScalar && kind != ModelKind::kLinear) widths = ModelSpec().widths;
  }
  return checked_widths(std::move(widths), kind, table);
}

/// Each stage of a cnn halves the image, which has to last.
void check_images(TableReader& table, ModelSpec& model, Problem& problem) {
  if (model.kernel % 2 == 0) problem.report("'model.kernel' must be odd", table.where("kernel"));
  const auto n_stages = static_cast<std::int64_t>(model.widths.size()) - 1;
  const std::int64_t least = n_stages < 20 ? std::int64_t{1} << n_stages : INT64_MAX;
  const std::vector<std::int64_t>& image = model.image;
  if (image.size() == 3 && !is_affordable(image)) {
    problem.report("'model.image' has more than 2^31 values", table.where("image"));
  } else if (image.size() == 3 && image[0] > 0 && image[1] >= least && image[2] >= least) {
    return;
  }
  problem.report("a cnn of " + std::to_string(n_stages) +
                     " stages needs 'model.image = [channels, height, width]' of at least " +
                     std::to_string(least) + " by " + std::to_string(least),
                 table.where("image"));
  model.image = {1, least, least};
}

/// Keys that only a cnn has differ from misspelt ones.
void check_keys_of_cnn(TableReader& table, ModelKind kind, Problem& problem) {
  if (kind == ModelKind::kCnn) return;
  for (const SchemaField* field : model_section().described().fields) {
    const std::vector<std::string_view>& kinds = field->kinds;
    if (kinds.size() != 1 || kinds[0] != name_of(ModelKind::kCnn)) continue;
    if (!table.has(field->key)) continue;
    problem.report("'model." + field->key + "' belongs to kind = \"cnn\"", table.where(field->key));
  }
}

}  // namespace

std::vector<SchemaSection> model_sections() {
  return {model_section().described(), gpt_section(), init_section().described()};
}

ModelSpec read_model(TableReader& root, const JobSurroundings& around, Problem& problem) {
  TableReader table = section(root, "model", problem);
  ModelTable model;
  model.dtype = around.dtype;
  model_section().read(table, model);
  model.widths = widths_of(table, model);
  check_keys_of_cnn(table, model.kind, problem);
  if (model.kind == ModelKind::kCnn) check_images(table, model, problem);
  if (model.kind == ModelKind::kGpt) model.gpt = read_gpt(table, problem);
  if (model.checkpoint != CheckpointKind::kNone && model.kind != ModelKind::kMlp &&
      model.kind != ModelKind::kBn) {
    problem.report("'model.checkpoint' is for the layers of an mlp", table.where("checkpoint"));
  }
  table.finish();
  return static_cast<const ModelSpec&>(model);
}

}  // namespace lockstep
