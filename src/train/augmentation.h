// Random augmentation as the loader's workers do it: which rows of an epoch are mirrored.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/random/generator.h"
#include "lockstep/train/job.h"
#include "lockstep/train/rank_epoch.h"

namespace lockstep {

/// Decides for each row of an epoch whether its features change sign, by one draw in the process
/// that reads the row: batch b is read by worker b mod W, without workers by the rank's own
/// process.
///
/// kWorker: each worker draws from the generator that the loader has seeded there. kInherited:
/// from a copy of the rank's own library generator, which a worker that is forked gets and which
/// the rank itself never moves on, as NumPy's did before PyTorch 1.9. Without workers both are the
/// rank's own generator, which moves on.
///
/// Requires: a job with augmentation and a sampler that cuts batches of one size.
/// Deterministic: a function of the job, the rank and the epochs planned so far.
class Augmentation {
 public:
  /// `job` and `context` must outlive it.
  Augmentation(const Job& job, const RankContext& context);
  ~Augmentation();
  Augmentation(const Augmentation&) = delete;
  Augmentation& operator=(const Augmentation&) = delete;
  Augmentation(Augmentation&&) = delete;
  Augmentation& operator=(Augmentation&&) = delete;

  /// The generators of one rank: its own process's, and another library's there. Workers have
  /// their own: new ones are seeded again.
  struct Streams {
    Generator own{0};
    Generator library{0};
  };

  /// As they were when the last pass began: from there it can be drawn again.
  const Streams& at_pass() const;
  void resume(const Streams& streams);

  /// 1 or -1 for each of `ids`. Records an rng event ("augment") for each process that draws.
  std::vector<double> signs(const std::vector<std::int64_t>& ids);

 private:
  class Reader;

  std::unique_ptr<Reader> reader_;
};

}  // namespace lockstep
