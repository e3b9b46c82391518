// optimizer, scheduler, scaler, clip.
#include <algorithm>

#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

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

/// What each kind has besides the rate and the decay. PyTorch's defaults.
void read_kind(TableReader& table, OptimizerSpec& optimizer) {
  const OptimizerKind kind = optimizer.kind;
  if (kind == OptimizerKind::kSgd || kind == OptimizerKind::kRmsprop) {
    optimizer.momentum = table.number_from("momentum", 0.0, 0.0);
  }
  if (kind == OptimizerKind::kSgd) {
    optimizer.dampening = table.number("dampening", 0.0);
    optimizer.nesterov = table.flag("nesterov", false);
    if (optimizer.nesterov && (optimizer.momentum <= 0.0 || optimizer.dampening != 0.0)) {
      table.problem().report("Nesterov momentum requires a momentum and zero dampening",
                             table.where("nesterov"));
    }
    return;
  }
  optimizer.eps = table.number_from("eps", kind == OptimizerKind::kAdagrad ? 1e-10 : 1e-8, 0.0);
  if (kind == OptimizerKind::kAdagrad) {
    optimizer.lr_decay = table.number_from("lr_decay", 0.0, 0.0);
    optimizer.initial_accumulator_value = table.number_from("initial_accumulator_value", 0.0, 0.0);
  } else if (kind == OptimizerKind::kRmsprop) {
    optimizer.alpha = table.number_from("alpha", optimizer.alpha, 0.0);
    optimizer.centered = table.flag("centered", false);
  } else {
    read_betas(table, optimizer);
    optimizer.amsgrad = table.flag("amsgrad", false);
  }
}

double default_lr(OptimizerKind kind) {
  if (kind == OptimizerKind::kSgd) return 0.1;
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW ? 1e-3 : 1e-2;
}

std::optional<double> number_if_given(TableReader& table, std::string_view key) {
  if (!table.has(key)) return std::nullopt;
  return table.number_from(key, 0.0, 0.0);
}

void read_groups(TableReader& table, OptimizerSpec& optimizer) {
  const TomlNode* list = table.array("groups");
  if (list == nullptr) return;
  for (const TomlNode& node : list->items) {
    if (!node.is_table()) {
      table.problem().report("a group is a table: { tensors = [\"bias\"], lr = 0.01 }", node.where);
      continue;
    }
    TableReader one(node, "optimizer.groups", table.problem());
    GroupSpec group{.tensors = one.texts("tensors"),
                    .lr = number_if_given(one, "lr"),
                    .weight_decay = number_if_given(one, "weight_decay"),
                    .momentum = number_if_given(one, "momentum")};
    one.finish();
    if (group.tensors.empty()) {
      table.problem().report("a group needs 'tensors', the names of its parameters", node.where);
    }
    optimizer.groups.push_back(std::move(group));
  }
}

OptimizerSpec read_optimizer(TableReader& root, Problem& problem) {
  TableReader table = section(root, "optimizer", problem);
  OptimizerSpec optimizer;
  optimizer.kind = table.word("kind", optimizer.kind);
  optimizer.lr = table.number_from("lr", default_lr(optimizer.kind), 0.0);
  const double decay = optimizer.kind == OptimizerKind::kAdamW ? 1e-2 : 0.0;
  optimizer.weight_decay = table.number_from("weight_decay", decay, 0.0);
  optimizer.maximize = table.flag("maximize", false);
  read_kind(table, optimizer);
  read_groups(table, optimizer);
  read_sharing(table, optimizer);
  table.finish();
  return optimizer;
}

optim::OneCycleLr read_one_cycle(TableReader& table) {
  optim::OneCycleLr rule;
  rule.max_lr = {table.number_from("max_lr", 0.1, 0.0)};
  rule.total_steps = table.integer("total_steps", 1, 1);
  rule.pct_start = table.number_from("pct_start", rule.pct_start, 0.0);
  rule.anneal = table.word("anneal", rule.anneal);
  rule.cycle_momentum = table.flag("cycle_momentum", true);
  rule.base_momentum = {table.number("base_momentum", rule.base_momentum.front())};
  rule.max_momentum = {table.number("max_momentum", rule.max_momentum.front())};
  rule.div_factor = table.number("div_factor", rule.div_factor);
  rule.final_div_factor = table.number("final_div_factor", rule.final_div_factor);
  rule.three_phase = table.flag("three_phase", false);
  return rule;
}

/// Factors of the initial rate, one per epoch; the last one stays in effect.
optim::LambdaLr read_table_rule(TableReader& table) {
  const std::vector<double> factors = table.numbers("factors");
  if (factors.empty()) {
    table.problem().report("kind = \"table\" needs 'factors': [1.0, 0.5, 0.25]", table.where());
    return {{[](std::int64_t) { return 1.0; }}};
  }
  return {{[factors](std::int64_t epoch) {
    return factors[std::min(static_cast<std::size_t>(epoch), factors.size() - 1)];
  }}};
}

optim::LrRule read_ramp(TableReader& table, ScheduleKind kind) {
  const optim::LinearLr linear;
  if (kind == ScheduleKind::kConstant) {
    return optim::ConstantLr{.factor = table.number_from("factor", linear.start_factor, 0.0),
                             .total_iters = table.integer("total_iters", 5, 1)};
  }
  if (kind == ScheduleKind::kPolynomial) {
    return optim::PolynomialLr{.total_iters = table.integer("total_iters", 5, 1),
                               .power = table.number("power", 1.0)};
  }
  return optim::LinearLr{
      .start_factor = table.number_from("start_factor", linear.start_factor, 0.0),
      .end_factor = table.number_from("end_factor", 1.0, 0.0),
      .total_iters = table.integer("total_iters", 5, 1)};
}

optim::LrRule read_rule(TableReader& table, ScheduleKind kind) {
  if (kind == ScheduleKind::kStep) {
    return optim::StepLr{.step_size = table.integer("step_size", 1, 1),
                         .gamma = table.number("gamma", 0.1)};
  }
  if (kind == ScheduleKind::kMultistep) {
    return optim::MultiStepLr{.milestones = table.integers("milestones"),
                              .gamma = table.number("gamma", 0.1)};
  }
  if (kind == ScheduleKind::kExponential)
    return optim::ExponentialLr{.gamma = table.number("gamma", 0.9)};
  if (kind == ScheduleKind::kCosine) {
    return optim::CosineAnnealingLr{.t_max = table.integer("t_max", 1, 1),
                                    .eta_min = table.number_from("eta_min", 0.0, 0.0)};
  }
  if (kind == ScheduleKind::kRestarts) {
    return optim::CosineAnnealingWarmRestarts{.t_0 = table.integer("t_0", 1, 1),
                                              .t_mult = table.integer("t_mult", 1, 1),
                                              .eta_min = table.number_from("eta_min", 0.0, 0.0)};
  }
  if (kind == ScheduleKind::kOnecycle) return read_one_cycle(table);
  if (kind == ScheduleKind::kTable) return read_table_rule(table);
  return read_ramp(table, kind);
}

optim::PlateauOptions read_plateau(TableReader& table) {
  optim::PlateauOptions options;
  options.maximize = table.word("mode", "min", {"min", "max"}) == "max";
  options.factor = table.number_from("factor", options.factor, 0.0);
  if (options.factor >= 1.0)
    table.problem().report("Factor should be < 1.0.", table.where("factor"));
  options.patience = table.integer("patience", options.patience);
  options.threshold = table.number("threshold", options.threshold);
  options.absolute = table.word("threshold_mode", "rel", {"rel", "abs"}) == "abs";
  options.cooldown = table.integer("cooldown", 0);
  options.min_lr = {table.number_from("min_lr", 0.0, 0.0)};
  options.eps = table.number_from("eps", options.eps, 0.0);
  return options;
}

/// The parts of a sequential or chained schedule.
std::vector<optim::LrRule> read_parts(TableReader& table) {
  std::vector<optim::LrRule> rules;
  const TomlNode* parts = table.array("parts");
  for (std::size_t i = 0; parts != nullptr && i < parts->items.size(); ++i) {
    const TomlNode& node = parts->items[i];
    if (!node.is_table()) {
      table.problem().report("a part is a table: { kind = \"linear\" }", node.where);
      continue;
    }
    TableReader part(node, "scheduler.parts", table.problem());
    // A part has no parts, and no metric.
    const auto plain =
        std::span(kWords<ScheduleKind>).first(static_cast<std::size_t>(ScheduleKind::kPlateau));
    const std::string word = part.word("kind", name_of(ScheduleKind::kCosine), plain);
    const ScheduleKind kind = parse_word<ScheduleKind>(word).value_or(ScheduleKind::kCosine);
    rules.push_back(read_rule(part, kind));
    part.finish();
  }
  if (rules.empty()) {
    table.problem().report("'scheduler.parts' are one schedule or more", table.where("parts"));
  }
  return rules;
}

SchedulerSpec read_scheduler(TableReader& root, Problem& problem) {
  SchedulerSpec scheduler;
  if (!root.has("scheduler")) return scheduler;
  TableReader table = section(root, "scheduler", problem);
  const auto kind = table.word("kind", ScheduleKind::kCosine);
  scheduler.per = table.word("per", scheduler.per);
  scheduler.times = table.small("times", 1, 1);
  scheduler.declared_times = table.small("declared_times", 1, 1);
  if (kind == ScheduleKind::kPlateau) {
    scheduler.plateau = read_plateau(table);
    scheduler.metric = table.word("metric", scheduler.metric);
  } else if (kind == ScheduleKind::kSequential || kind == ScheduleKind::kChained) {
    scheduler.rules = read_parts(table);
    scheduler.chained = kind == ScheduleKind::kChained;
    if (!scheduler.chained) scheduler.milestones = table.integers("milestones");
    if (!scheduler.chained && scheduler.milestones.size() + 1 != scheduler.rules.size()) {
      problem.report("'scheduler.milestones' are one fewer than its parts",
                     table.where("milestones"));
    }
  } else {
    scheduler.rules = {read_rule(table, kind)};
  }
  table.finish();
  return scheduler;
}

std::optional<optim::GradScalerOptions> read_scaler(TableReader& root, Problem& problem) {
  if (!root.has("scaler")) return std::nullopt;
  TableReader table = section(root, "scaler", problem);
  optim::GradScalerOptions options;
  options.init_scale = table.number_from("init", options.init_scale, 0.0);
  options.growth_factor = table.number("growth", options.growth_factor);
  options.backoff_factor = table.number_from("backoff", options.backoff_factor, 0.0);
  options.growth_interval = table.integer("growth_interval", options.growth_interval, 1);
  options.enabled = table.flag("enabled", true);
  table.finish();
  if (options.growth_factor <= 1.0) {
    problem.report("The growth factor must be > 1.0.", table.where("growth"));
  }
  if (options.backoff_factor >= 1.0) {
    problem.report("The backoff factor must be < 1.0.", table.where("backoff"));
  }
  return options;
}

ClipSpec read_clip(TableReader& root, Problem& problem) {
  ClipSpec clip;
  if (!root.has("clip")) return clip;
  TableReader table = section(root, "clip", problem);
  clip.norm = number_if_given(table, "norm");
  clip.value = number_if_given(table, "value");
  clip.norm_type = table.number("norm_type", 2.0);
  clip.before_sync =
      table.word("when", "after-sync", {"after-sync", "before-sync"}) == "before-sync";
  clip.unscale = table.flag("unscale", true);
  clip.recount = table.flag("recount", false);
  table.finish();
  const bool known = clip.norm_type == 1.0 || clip.norm_type == 2.0 ||
                     clip.norm_type == std::numeric_limits<double>::infinity();
  if (!known) problem.report("'clip.norm_type' is 1, 2 or inf", table.where("norm_type"));
  if (clip.norm.has_value() == clip.value.has_value()) {
    problem.report("'clip' needs either 'norm' or 'value'", table.where());
  }
  return clip;
}

}  // namespace

TableReader section(TableReader& root, std::string_view name, Problem& problem) {
  static const TomlNode empty;
  const TomlNode* node = root.table(name);
  return {node == nullptr ? empty : *node, std::string(name), problem};
}

void read_optimization(TableReader& root, Job& job, Problem& problem) {
  job.optimizer = read_optimizer(root, problem);
  job.scheduler = read_scheduler(root, problem);
  job.scaler = read_scaler(root, problem);
  job.clip = read_clip(root, problem);
}

}  // namespace lockstep
