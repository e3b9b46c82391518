// What one process would have computed on the global batches that N ranks consumed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/harness/companion/step_values.h"
#include "lockstep/train/job.h"

namespace lockstep {

struct ReferenceValues {
  std::vector<double> values;
  std::vector<double> bound;  ///< Largest legal difference an element; empty = none.
};

struct ReferenceTensor {
  ComparedPoint point = ComparedPoint::kGradUsed;
  std::string name;
  ReferenceValues reference;
};

/// The reference, step after step.
class SingleProcess {
 public:
  virtual ~SingleProcess() = default;
  /// What one process has at step `k`. Requires: steps are asked for in order.
  virtual std::vector<ReferenceTensor> step(std::size_t k) = 0;

  /// Why there is no reference (from this step on), or empty.
  const std::string& failure() const { return failure_; }

 protected:
  void fail(std::string why) { failure_ = std::move(why); }

 private:
  std::string failure_;
};

/// What each rank's own backwards of step `k` added up to, by tensor and rank, from the parameters
/// that rank 0 had. An undefined gradient is empty.
std::map<std::string, std::vector<std::vector<double>>> local_gradients(
    const Job& job, const std::vector<std::vector<RankStep>>& ranks, std::size_t k);

/// What the declared mean divides by, over all ranks of a micro-step.
double declared_denominator(const LossSpec& loss,
                            const std::vector<std::vector<RankStep>>& ranks,
                            std::size_t k,
                            std::size_t micro);

/// Exact jobs: the job itself, run as one process. Others: gradients step by step from the recorded
/// parameters. `ranks` are the recorded steps by rank and must outlive the result.
std::unique_ptr<SingleProcess> make_single_process(const Job& job,
                                                   const std::vector<std::vector<RankStep>>& ranks,
                                                   std::size_t n_steps);

}  // namespace lockstep
