#include "lockstep/train/stepper.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/rmsprop.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/zero.h"

namespace lockstep {

namespace {

/// The model's parameters as the job groups them: the first group has those that no other names.
std::vector<optim::ParamGroup> grouped(const OptimizerSpec& spec, const nn::Module& model) {
  std::vector<optim::ParamGroup> groups(1);
  for (const GroupSpec& group : spec.groups) {
    groups.push_back({.parameters = {},
                      .lr = group.lr,
                      .weight_decay = group.weight_decay,
                      .momentum = group.momentum});
  }
  for (const NamedVariable& named : model.named_parameters()) {
    std::size_t place = 0;
    for (std::size_t g = 0; g < spec.groups.size(); ++g) {
      const std::vector<std::string>& names = spec.groups[g].tensors;
      if (std::find(names.begin(), names.end(), named.name) != names.end()) place = g + 1;
    }
    groups[place].parameters.push_back(named.variable);
  }
  return groups;
}

/// Of Adam or AdamW.
template <typename Options>
Options adam_options(const Job& job) {
  const OptimizerSpec& spec = job.optimizer;
  return {.lr = spec.lr,
          .beta1 = spec.beta1,
          .beta2 = spec.beta2,
          .eps = spec.eps,
          .weight_decay = spec.weight_decay,
          .amsgrad = spec.amsgrad,
          .maximize = spec.maximize,
          .compat = job.ddp.options.compat};
}

std::unique_ptr<optim::Optimizer> make_adam(const Job& job, std::vector<optim::ParamGroup> groups) {
  if (job.optimizer.kind == OptimizerKind::kAdamW) {
    return std::make_unique<optim::AdamW>(std::move(groups),
                                          adam_options<optim::AdamWOptions>(job));
  }
  return std::make_unique<optim::Adam>(std::move(groups), adam_options<optim::AdamOptions>(job));
}

std::unique_ptr<optim::Optimizer> make_sgd(const OptimizerSpec& spec,
                                           std::vector<optim::ParamGroup> groups) {
  const optim::SgdOptions options{.lr = spec.lr,
                                  .momentum = spec.momentum,
                                  .dampening = spec.dampening,
                                  .weight_decay = spec.weight_decay,
                                  .nesterov = spec.nesterov,
                                  .maximize = spec.maximize};
  return std::make_unique<optim::Sgd>(std::move(groups), options);
}

std::unique_ptr<optim::Optimizer> make_adagrad(const OptimizerSpec& spec,
                                               std::vector<optim::ParamGroup> groups) {
  const optim::AdagradOptions options{.lr = spec.lr,
                                      .lr_decay = spec.lr_decay,
                                      .weight_decay = spec.weight_decay,
                                      .initial_accumulator_value = spec.initial_accumulator_value,
                                      .eps = spec.eps,
                                      .maximize = spec.maximize};
  return std::make_unique<optim::Adagrad>(std::move(groups), options);
}

std::unique_ptr<optim::Optimizer> make_rmsprop(const Job& job,
                                               std::vector<optim::ParamGroup> groups) {
  const OptimizerSpec& spec = job.optimizer;
  const optim::RmspropOptions options{.lr = spec.lr,
                                      .alpha = spec.alpha,
                                      .eps = spec.eps,
                                      .weight_decay = spec.weight_decay,
                                      .momentum = spec.momentum,
                                      .centered = spec.centered,
                                      .maximize = spec.maximize,
                                      .compat = job.ddp.options.compat};
  return std::make_unique<optim::Rmsprop>(std::move(groups), options);
}

std::unique_ptr<optim::Optimizer> make_of_kind(const Job& job,
                                               std::vector<optim::ParamGroup> groups) {
  switch (job.optimizer.kind) {
    case OptimizerKind::kSgd:
      return make_sgd(job.optimizer, std::move(groups));
    case OptimizerKind::kAdagrad:
      return make_adagrad(job.optimizer, std::move(groups));
    case OptimizerKind::kRmsprop:
      return make_rmsprop(job, std::move(groups));
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      break;
  }
  return make_adam(job, std::move(groups));
}

/// One that keeps all of its state, or a rank's share of it.
std::unique_ptr<optim::Optimizer> make_whole(const Job& job,
                                             std::vector<optim::ParamGroup> groups) {
  std::unique_ptr<optim::Optimizer> optimizer = make_of_kind(job, std::move(groups));
  if (job.exact.on) {
    optimizer->round_each_step({.bits = job.exact.grid, .limit = job.exact.clamp});
  }
  return optimizer;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Job& job,
                                                 const nn::Module& model,
                                                 ProcessGroup& group) {
  std::vector<optim::ParamGroup> groups = grouped(job.optimizer, model);
  if (!job.optimizer.zero) return make_whole(job, std::move(groups));
  return std::make_unique<ZeroRedundancyOptimizer>(
      std::move(groups),
      [&job](std::vector<optim::ParamGroup> share) { return make_whole(job, std::move(share)); },
      group,
      ZeroOptions{.parameters_as_bucket_view = job.optimizer.parameters_as_bucket_view,
                  .site = {}});
}

std::unique_ptr<ModelAverager> make_averager(const OptimizerSpec& spec, ProcessGroup& group) {
  if (!spec.averager) return nullptr;
  const AveragerSpec& averager = *spec.averager;
  if (averager.levels.empty()) {
    return std::make_unique<PeriodicModelAverager>(group, averager.period, averager.warmup_steps);
  }
  return std::make_unique<HierarchicalModelAverager>(group, averager.levels, averager.warmup_steps);
}

std::vector<optim::StateNumber> group_numbers(std::span<const optim::Group> groups) {
  std::vector<optim::StateNumber> numbers;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string prefix = std::to_string(g) + ".";
    numbers.push_back({prefix + "lr", groups[g].lr});
    numbers.push_back({prefix + "weight_decay", groups[g].weight_decay});
    if (groups[g].momentum) numbers.push_back({prefix + "momentum", *groups[g].momentum});
    if (groups[g].initial_lr) numbers.push_back({prefix + "initial_lr", *groups[g].initial_lr});
  }
  return numbers;
}

void load_groups(std::span<optim::Group> groups, std::span<const optim::StateNumber> numbers) {
  optim::check_state_names(group_numbers(groups), numbers);
  std::size_t at = 0;
  for (optim::Group& group : groups) {
    group.lr = numbers[at++].value;
    group.weight_decay = numbers[at++].value;
    if (group.momentum) group.momentum = numbers[at++].value;
    if (group.initial_lr) group.initial_lr = numbers[at++].value;
  }
}

std::unique_ptr<optim::LrScheduler> make_schedule(const SchedulerSpec& spec,
                                                  optim::Optimizer& optimizer) {
  if (spec.rules.empty()) return nullptr;
  if (spec.chained) return std::make_unique<optim::ChainedLr>(optimizer, spec.rules);
  if (spec.rules.size() == 1) {
    return std::make_unique<optim::RuleLr>(optimizer, spec.rules.front());
  }
  return std::make_unique<optim::SequentialLr>(optimizer, spec.rules, spec.milestones);
}

}  // namespace

void clip_gradients(const ClipSpec& clip, std::span<const Variable> parameters) {
  if (clip.norm) {
    optim::clip_grad_norm(parameters, {.max_norm = *clip.norm, .norm_type = clip.norm_type});
  }
  if (clip.value) optim::clip_grad_value(parameters, *clip.value);
}

Stepper::Stepper(const Job& job, nn::Module& model, ProcessGroup& group)
    : job_(job),
      group_(group),
      optimizer_(make_optimizer(job, model, group)),
      schedule_(make_schedule(job.scheduler, *optimizer_)),
      averager_(make_averager(job.optimizer, group)) {
  if (job.scheduler.plateau) plateau_.emplace(*optimizer_, *job.scheduler.plateau);
  if (job.scaler) scaler_.emplace(job.scaler->options);
}

std::vector<Stepper::Numbers> Stepper::numbers() const {
  std::vector<Numbers> parts;
  parts.push_back({StepperPart::kGroups, group_numbers(std::as_const(*optimizer_).groups())});
  if (schedule_) parts.push_back({StepperPart::kScheduler, schedule_->state()});
  if (plateau_) parts.push_back({StepperPart::kPlateau, plateau_->state()});
  if (scaler_) parts.push_back({StepperPart::kScaler, scaler_->state()});
  if (averager_) {
    parts.push_back({StepperPart::kAverager, {{"step", static_cast<double>(averager_->step())}}});
  }
  return parts;
}

void Stepper::load_numbers(const Numbers& numbers) {
  switch (numbers.part) {
    case StepperPart::kGroups:
      load_groups(optimizer_->groups(), numbers.numbers);
      break;
    case StepperPart::kScheduler:
      if (schedule_) schedule_->load_state(numbers.numbers);
      break;
    case StepperPart::kPlateau:
      if (plateau_) plateau_->load_state(numbers.numbers);
      break;
    case StepperPart::kScaler:
      if (scaler_) scaler_->load_state(numbers.numbers);
      break;
    case StepperPart::kAverager:
      if (averager_) averager_->set_step(static_cast<std::int64_t>(numbers.numbers.at(0).value));
      break;
  }
}

Variable Stepper::scaled(const Variable& loss) { return scaler_ ? scaler_->scale(loss) : loss; }

void Stepper::clip_before_sync() {
  if (job_.clip.before_sync) clip();
}

void Stepper::clip() {
  const std::span<const Variable> parameters = optimizer_->parameters();
  if (!job_.clip.recount || !job_.clip.norm) return clip_gradients(job_.clip, parameters);
  const optim::ClipNorm options{.max_norm = *job_.clip.norm, .norm_type = job_.clip.norm_type};
  const double own = optim::total_norm(parameters, options);
  double squares = own * own;
  group_.all_reduce(Memory::of(std::span<double>(&squares, 1))).wait_or_throw();
  optim::clip_grads_with_norm(parameters, options, std::sqrt(squares));
}

void Stepper::step() {
  const bool clips = !job_.clip.before_sync && (job_.clip.norm || job_.clip.value);
  if (clips && scaler_ && job_.clip.unscale) scaler_->unscale(*optimizer_);
  if (clips) clip();
  if (scaler_) {
    scaler_->step(*optimizer_, {});
    if (job_.scaler->update) scaler_->update();
  } else {
    optimizer_->step({});
  }
  if (averager_) averager_->average(optimizer_->parameters(), {});
}

void Stepper::move_rates(double own_loss) {
  for (std::int64_t i = 0; schedule_ && i < job_.scheduler.times; ++i) schedule_->step();
  if (plateau_ && job_.scheduler.metric == PlateauMetric::kLoss) plateau_->step(own_loss);
}

void Stepper::end_step(double own_loss) {
  if (job_.scheduler.per == RatePace::kStep) move_rates(own_loss);
}

void Stepper::end_epoch(double own_loss, std::optional<double> metric) {
  if (job_.scheduler.per == RatePace::kEpoch) move_rates(own_loss);
  if (plateau_ && job_.scheduler.metric == PlateauMetric::kEval && metric) plateau_->step(*metric);
}

}  // namespace lockstep
