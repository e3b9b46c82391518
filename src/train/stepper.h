// What a training script does between a backward and the next forward.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/nn/module.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/reduce_lr_on_plateau.h"
#include "lockstep/train/job.h"

namespace lockstep {

/// What has numbers of its own besides the optimizer's tensors.
enum class StepperPart : std::uint8_t { kGroups, kAverager, kScheduler, kPlateau, kScaler };
template <>
inline constexpr EnumNames<5> kEnumNames<StepperPart> = {
    "groups", "averager", "scheduler", "plateau", "scaler"};

/// A job's optimizer with its gradient scaler, clipping and schedule, in the order in which a
/// correct script calls them: unscale, clip, step, update; then the schedule.
///
/// Requires: the job, the model and the group outlive it.
class Stepper {
 public:
  /// Numbers of one of its parts.
  struct Numbers {
    StepperPart part = StepperPart::kGroups;
    std::vector<optim::StateNumber> numbers;
  };

  /// Collective where the job's averager divides the group.
  Stepper(const Job& job, nn::Module& model, ProcessGroup& group);

  optim::Optimizer& optimizer() { return *optimizer_; }

  /// What backward starts from: the loss times the scaler's scale.
  Variable scaled(const Variable& loss);
  /// After each backward, before a hand-written average: clips if the job asks for that here.
  void clip_before_sync();
  void step();
  /// Moves the rates on, if the job does so after each step.
  void end_step(double own_loss);
  /// The same after each epoch. `metric`: of this epoch's evaluation, if there was one.
  void end_epoch(double own_loss, std::optional<double> metric);

  /// All that a snapshot needs besides the optimizer's tensors.
  std::vector<Numbers> numbers() const;
  /// Takes one part back; a part that this job does not have is passed over.
  /// Errors: std::invalid_argument for numbers of other names.
  void load_numbers(const Numbers& numbers);

 private:
  void clip();
  void move_rates(double own_loss);

  const Job& job_;
  ProcessGroup& group_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::LrScheduler> schedule_;
  std::optional<optim::ReduceLrOnPlateau> plateau_;
  std::optional<optim::GradScaler> scaler_;
  std::unique_ptr<ModelAverager> averager_;
};

/// Clips gradients as the job says.
void clip_gradients(const ClipSpec& clip, std::span<const Variable> parameters);

}  // namespace lockstep
