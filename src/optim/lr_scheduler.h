// Schedules at work: they move an optimizer's learning rates from epoch to epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/optim/lr_rules.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// One number of a scheduler's or scaler's state, by PyTorch's name.
struct StateNumber {
  std::string name;
  double value = 0.0;

  friend bool operator==(const StateNumber&, const StateNumber&) = default;
};

/// Moves the rates of an optimizer's groups. Construction sets the rates of epoch 0; step() goes
/// one epoch (or optimizer step, as the caller counts) further, after optimizer.step().
///
/// Requires: the optimizer outlives the scheduler.
/// Errors: std::invalid_argument, with PyTorch's text where it has one.
/// Deterministic: bit-equal to the rates of PyTorch 1.13 and 2.15 given the same C library (cos,
///     pow, log): computed in double, each rate from the one before where PyTorch does so, and
///     changes of the rates from outside carry on.
/// Source: torch.optim.lr_scheduler.
class LrScheduler {
 public:
  LrScheduler() = default;
  virtual ~LrScheduler() = default;
  LrScheduler(const LrScheduler&) = delete;
  LrScheduler& operator=(const LrScheduler&) = delete;
  LrScheduler(LrScheduler&&) = delete;
  LrScheduler& operator=(LrScheduler&&) = delete;

  /// Moves on by one step of the schedule, and sets the rates of all groups.
  virtual void step() = 0;
  /// For snapshots. The rates themselves are the optimizer's: groups().
  virtual std::vector<StateNumber> state() const = 0;
  /// Errors: std::invalid_argument unless the names are those of state(), in its order.
  virtual void load_state(std::span<const StateNumber> numbers) = 0;
};

/// One rule: `RuleLr schedule(optimizer, StepLr{.step_size = 30});`
class RuleLr final : public LrScheduler {
 public:
  RuleLr(Optimizer& optimizer, LrRule rule);

  void step() override;
  /// Goes to an epoch by the closed form where there is one (PyTorch's step(epoch)). Fractions are
  /// for warm restarts.
  void step_to(double epoch);
  std::vector<StateNumber> state() const override;
  void load_state(std::span<const StateNumber> numbers) override;

 private:
  friend class SequentialLr;
  friend class ChainedLr;

  /// Rules that share an optimizer: none of them says how long its whole schedule is.
  static std::vector<std::unique_ptr<RuleLr>> parts_of(Optimizer& optimizer,
                                                       std::vector<LrRule> rules);

  void start_cycle(const OneCycleLr& rule);
  void restart_at(const CosineAnnealingWarmRestarts& rule, double epoch);
  void apply(bool closed);

  Optimizer* optimizer_;
  LrRule rule_;
  std::vector<double> base_lrs_;
  std::int64_t last_epoch_ = -1;
  bool alone_ = true;
  double t_cur_ = -1.0;  ///< Warm restarts only, with t_i_.
  double t_i_ = 0.0;
};

/// One rule after the other, each from its milestone on.
///
/// Note: as in PyTorch, all rules are started first and the rates then reset, so a rule that
/// continues from the present rate (a cosine) continues from the end of the one before it.
class SequentialLr final : public LrScheduler {
 public:
  SequentialLr(Optimizer& optimizer,
               std::vector<LrRule> rules,
               std::vector<std::int64_t> milestones);

  void step() override;
  std::vector<StateNumber> state() const override;
  void load_state(std::span<const StateNumber> numbers) override;

 private:
  void note_progress();

  std::vector<std::unique_ptr<RuleLr>> parts_;
  std::vector<std::int64_t> milestones_;
  std::int64_t last_epoch_ = 0;
};

/// All rules at once, each on what the one before it has made of the rate.
class ChainedLr final : public LrScheduler {
 public:
  ChainedLr(Optimizer& optimizer, std::vector<LrRule> rules);

  void step() override;
  std::vector<StateNumber> state() const override;
  void load_state(std::span<const StateNumber> numbers) override;

 private:
  std::vector<std::unique_ptr<RuleLr>> parts_;
};

/// Throws std::invalid_argument unless `given` has the names of `wanted`, in that order.
void check_state_names(std::span<const StateNumber> wanted, std::span<const StateNumber> given);

}  // namespace lockstep::optim
