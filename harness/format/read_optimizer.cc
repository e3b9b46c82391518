// optimizer, autocast, scaler, clip.
#include <limits>

#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

using Kind = OptimizerKind;

const Section<GroupSpec>& group_section() {
  static const Section<GroupSpec> section(
      "optimizer.groups",
      [](Section<GroupSpec>& it) {
        it.differs_by_rank();
        it.add("tensors", &GroupSpec::tensors, "Names of its parameters.").required();
        it.add("lr", &GroupSpec::lr, "As of the optimizer.").from(0.0).shown("the optimizer's");
        it.add("weight_decay", &GroupSpec::weight_decay, "As of the optimizer.")
            .from(0.0)
            .shown("the optimizer's");
        it.add("momentum", &GroupSpec::momentum, "As of the optimizer; adam, adamw: beta1.")
            .from(0.0)
            .shown("the optimizer's");
      },
      SectionShape::kList);
  return section;
}

void add_rates(Section<OptimizerSpec>& it) {
  it.add("lr", &OptimizerSpec::lr, "Learning rate.")
      .from(0.0)
      .of({Kind::kSgd})
      .varies("the learning rate", {"0.5", "0.125", "0.0078125"});
  it.add("lr", &OptimizerSpec::lr, "Learning rate.")
      .preset(1e-3)
      .from(0.0)
      .of({Kind::kAdam, Kind::kAdamW});
  it.add("lr", &OptimizerSpec::lr, "Learning rate.")
      .preset(1e-2)
      .from(0.0)
      .of({Kind::kAdagrad, Kind::kRmsprop});
  it.add("weight_decay", &OptimizerSpec::weight_decay, "Times the parameter, added to gradients.")
      .from(0.0)
      .except({Kind::kAdamW});
  it.add(
        "weight_decay", &OptimizerSpec::weight_decay, "Share of a parameter that a step takes off.")
      .preset(1e-2)
      .from(0.0)
      .of({Kind::kAdamW});
  it.add("maximize", &OptimizerSpec::maximize, "Steps go up the gradient.");
}

/// What each kind has besides the rate and the decay. PyTorch's defaults.
void add_keys_of_kinds(Section<OptimizerSpec>& it) {
  it.add("momentum", &OptimizerSpec::momentum, "Share of the last update that is kept.")
      .from(0.0)
      .of({Kind::kSgd, Kind::kRmsprop});
  it.add("dampening", &OptimizerSpec::dampening, "Share of a gradient that momentum leaves out.")
      .of({Kind::kSgd});
  it.add("nesterov", &OptimizerSpec::nesterov, "Momentum looks ahead.").of({Kind::kSgd});
  it.add("eps", &OptimizerSpec::eps, "Is added to denominators.")
      .from(0.0)
      .of({Kind::kAdam, Kind::kAdamW, Kind::kRmsprop});
  it.add("eps", &OptimizerSpec::eps, "Is added to denominators.")
      .preset(1e-10)
      .from(0.0)
      .of({Kind::kAdagrad});
  it.add("lr_decay", &OptimizerSpec::lr_decay, "The rate falls as 1 / (1 + steps times this).")
      .from(0.0)
      .of({Kind::kAdagrad});
  it.add("initial_accumulator_value",
         &OptimizerSpec::initial_accumulator_value,
         "Where the sums of squares start.")
      .from(0.0)
      .of({Kind::kAdagrad});
  it.add("alpha", &OptimizerSpec::alpha, "Decay of the mean of squares.")
      .from(0.0)
      .of({Kind::kRmsprop});
  it.add("centered", &OptimizerSpec::centered, "Divides by the deviation, not by the mean square.")
      .of({Kind::kRmsprop});
  it.code("betas", FieldType::kNumbers, "Decay of the means of gradients and of their squares.")
      .shown("0.9, 0.999")
      .of({Kind::kAdam, Kind::kAdamW})
      .whole();
  it.add("amsgrad", &OptimizerSpec::amsgrad, "Divides by the largest mean of squares so far.")
      .of({Kind::kAdam, Kind::kAdamW});
}

const Section<OptimizerSpec>& optimizer_section() {
  static const Section<OptimizerSpec> section("optimizer", [](Section<OptimizerSpec>& it) {
    it.differs_by_rank();
    it.add("kind", &OptimizerSpec::kind, "What turns gradients into steps.")
        .selects()
        .varies("the optimizer", {"sgd", "adam", "adagrad", "rmsprop"});
    add_rates(it);
    add_keys_of_kinds(it);
    it.tables("groups",
              &OptimizerSpec::groups,
              group_section(),
              "a group is a table: { tensors = [\"bias\"], lr = 0.01 }",
              "Parameters with their own options.");
  });
  return section;
}

void read_betas(TableReader& table, OptimizerSpec& optimizer) {
  const std::vector<double> betas = table.numbers("betas");
  if (!table.has("betas")) return;
  const auto is_decay = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  if (betas.size() != 2 || !is_decay(betas[0]) || !is_decay(betas[1])) {
    table.problem().report("'optimizer.betas' are two numbers from 0 up to, not including, 1",
                           table.where("betas"));
    return;
  }
  optimizer.beta1 = betas[0];
  optimizer.beta2 = betas[1];
}

void check_optimizer(TableReader& table, OptimizerSpec& optimizer) {
  if (optimizer.nesterov && (optimizer.momentum <= 0.0 || optimizer.dampening != 0.0)) {
    table.problem().report("Nesterov momentum requires a momentum and zero dampening",
                           table.where("nesterov"));
  }
  if (optimizer.kind == Kind::kAdam || optimizer.kind == Kind::kAdamW) read_betas(table, optimizer);
  const TomlNode* groups = table.node("groups");
  for (std::size_t i = 0; i < optimizer.groups.size(); ++i) {
    if (!optimizer.groups[i].tensors.empty()) continue;
    table.problem().report("a group needs 'tensors', the names of its parameters",
                           groups->items[i].where);
  }
}

OptimizerSpec read_optimizer(TableReader& root, Problem& problem) {
  TableReader table = section(root, "optimizer", problem);
  OptimizerSpec optimizer;
  optimizer_section().read(table, optimizer);
  check_optimizer(table, optimizer);
  read_sharing(table, optimizer);
  table.finish();
  return optimizer;
}

const Section<AutocastOptions>& autocast_section() {
  static const Section<AutocastOptions> section("autocast", [](Section<AutocastOptions>& it) {
    it.differs_by_rank();
    it.add("dtype", &AutocastOptions::dtype, "Of linear layers, convolutions and attention.")
        .words({"bf16", "f16"});
    it.add("enabled", &AutocastOptions::enabled, "`false`: it does nothing.");
    it.add("cache_enabled",
           &AutocastOptions::cache_enabled,
           "A parameter is converted once for a forward with its loss.");
  });
  return section;
}

AutocastOptions read_autocast(TableReader& root, Problem& problem) {
  if (!root.has("autocast")) return {.enabled = false};
  TableReader table = section(root, "autocast", problem);
  AutocastOptions options;
  autocast_section().read(table, options);
  table.finish();
  return options;
}

void check_scaler(TableReader& table, ScalerSpec& scaler) {
  const optim::GradScalerOptions& options = scaler.options;
  if (options.growth_factor <= 1.0) {
    table.problem().report("The growth factor must be > 1.0.", table.where("growth"));
  }
  if (options.backoff_factor >= 1.0) {
    table.problem().report("The backoff factor must be < 1.0.", table.where("backoff"));
  }
}

const Section<ScalerSpec>& scaler_section() {
  using Options = optim::GradScalerOptions;
  static const Section<ScalerSpec> section("scaler", [](Section<ScalerSpec>& it) {
    it.differs_by_rank();
    const auto option = [](auto member) { return in(&ScalerSpec::options, member); };
    it.add("init", option(&Options::init_scale), "The first scale.").from(0.0);
    it.add("growth", option(&Options::growth_factor), "The scale grows by this, more than 1.");
    it.add("backoff", option(&Options::backoff_factor), "The scale shrinks by this, less than 1.")
        .from(0.0);
    it.add("growth_interval", option(&Options::growth_interval), "Finite steps before it grows.")
        .at_least(1);
    it.add("enabled", option(&Options::enabled), "`false`: it does nothing.");
    it.add("update",
           &ScalerSpec::update,
           "`false`: `update` is forgotten after the step, and the next one is an error.");
    it.check(check_scaler);
  });
  return section;
}

std::optional<ScalerSpec> read_scaler(TableReader& root, Problem& problem) {
  if (!root.has("scaler")) return std::nullopt;
  TableReader table = section(root, "scaler", problem);
  ScalerSpec scaler;
  scaler_section().read(table, scaler);
  table.finish();
  return scaler;
}

void check_clip(TableReader& table, ClipSpec& clip) {
  const bool known = clip.norm_type == 1.0 || clip.norm_type == 2.0 ||
                     clip.norm_type == std::numeric_limits<double>::infinity();
  if (!known) {
    table.problem().report("'clip.norm_type' is 1, 2 or inf", table.where("norm_type"));
  }
  if (clip.norm.has_value() == clip.value.has_value()) {
    table.problem().report("'clip' needs either 'norm' or 'value'", table.where());
  }
}

const Section<ClipSpec>& clip_section() {
  static const Section<ClipSpec> section("clip", [](Section<ClipSpec>& it) {
    it.differs_by_rank();
    it.add("norm", &ClipSpec::norm, "The largest norm of all gradients together.").from(0.0);
    it.add("value", &ClipSpec::value, "The largest size of an element; instead of `norm`.")
        .from(0.0);
    it.add("norm_type", &ClipSpec::norm_type, "1, 2 or inf.");
    it.either("when",
              &ClipSpec::before_sync,
              "after-sync",
              "before-sync",
              "before-sync: each rank of a hand-written loop clips its own gradients.");
    it.add("unscale",
           &ClipSpec::unscale,
           "`false` clips while gradients still carry the scaler's scale.");
    it.add("recount",
           &ClipSpec::recount,
           "Squares of the norm are summed over the ranks, as if each had a shard.");
    it.check(check_clip);
  });
  return section;
}

ClipSpec read_clip(TableReader& root, Problem& problem) {
  ClipSpec clip;
  if (!root.has("clip")) return clip;
  TableReader table = section(root, "clip", problem);
  clip_section().read(table, clip);
  table.finish();
  return clip;
}

}  // namespace

std::vector<SchemaSection> optimizer_sections() {
  return {optimizer_section().described(), group_section().described()};
}

std::vector<SchemaSection> scaler_sections() {
  return {autocast_section().described(), scaler_section().described(), clip_section().described()};
}

TableReader section(TableReader& root, std::string_view name, Problem& problem) {
  static const TomlNode empty;
  const TomlNode* node = root.table(name);
  return {node == nullptr ? empty : *node, std::string(name), problem};
}

void read_optimization(TableReader& root, Job& job, Problem& problem) {
  job.optimizer = read_optimizer(root, problem);
  job.scheduler = read_scheduler(root, problem);
  job.autocast = read_autocast(root, problem);
  job.scaler = read_scaler(root, problem);
  job.clip = read_clip(root, problem);
}

}  // namespace lockstep
