// What snapshots hold of a training loop, as named tensors and numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/nn/module.h"
#include "lockstep/reducer/comm_hook.h"
#include "lockstep/train/augmentation.h"
#include "lockstep/train/job.h"
#include "lockstep/train/stepper.h"

namespace lockstep {

/// Where the loop stands.
struct LoopPlace {
  /// `batch` of an epoch that has been consumed whole, whatever the number of ranks is now.
  static constexpr std::int64_t kEndOfEpoch = std::numeric_limits<std::int32_t>::max();

  std::int64_t step = 0;   ///< Optimizer steps finished.
  std::int64_t epoch = 0;  ///< The epoch in progress.
  std::int64_t batch = 0;  ///< Batches of it that this rank has consumed.
  double last_loss = 0.0;  ///< Plateau schedules look at it as the epoch ends.
};

/// What of a loop a snapshot holds. Everything outlives it; null where the job has none.
struct SnapshotSubjects {
  nn::Module* model = nullptr;
  Stepper* stepper = nullptr;
  CommHook* hook = nullptr;
  Augmentation* augmentation = nullptr;
};

/// One rank's share of a job's state, on its way into a snapshot's parts and back.
///
/// The common part holds what all ranks have alike: parameters and optimizer state. A rank's own part
/// holds everything else, with the place in the data: numbers of the optimizer, its schedule and scaler,
/// buffers, gradients that outlive a step, generators, what a communication hook remembers, and of
/// local SGD its parameters too.
///
/// Requires: everything given outlives it.
/// Errors: std::runtime_error where a part does not fit this job.
class SnapshotContents {
 public:
  SnapshotContents(const Job& job, RankContext& context, const SnapshotSubjects& subjects);

  SafeTensors common_part() const;
  SafeTensors own_part(const LoopPlace& place) const;

  /// Parameters and optimizer state, of either part.
  void load_parameters(const SafeTensors& part);
  /// All else of an own part, but for generators.
  void load_own(const SafeTensors& part);
  /// Streams of augmentation only where the part is `of_this_rank`.
  void load_generators(const SafeTensors& part, bool of_this_rank);
  /// Where the loop stood when it wrote this own part.
  static LoopPlace place_of(const SafeTensors& own);

  bool includes(SnapshotPart part) const;
  bool takes(SnapshotPart part) const;
  /// Whether ranks are brought together by something else than their gradients, or never.
  bool trains_alone() const;

 private:
  /// Whether each rank has this parameter for itself.
  bool is_local(const std::string& parameter) const;
  void add_numbers(SafeTensors& part) const;
  void add_parameters(SafeTensors& part, bool local) const;
  void add_gradients(SafeTensors& part) const;
  void add_hook(SafeTensors& part) const;
  void add_generators(SafeTensors& part) const;
  void load_hook(const SafeTensors& part);

  const Job& job_;
  RankContext& context_;
  nn::Module& model_;
  Stepper& stepper_;
  CommHook* hook_;
  Augmentation* augmentation_;
  std::vector<std::string> names_;  // Of the optimizer's parameters.
};

}  // namespace lockstep
