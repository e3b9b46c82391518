// Words for a program: what it alone knows, said where it happens. Reached as `rank.annotate()`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/trace/recorder.h"
#include "lockstep/trace/stream_record.h"

namespace lockstep {

/// An epoch that a sampler of the program's own begins.
struct EpochAnnotation {
  std::int64_t epoch = 0;
  std::string_view split = kTrainSplit;
  /// "distributed": all ranks share one order and read disjoint parts of it. "random",
  /// "sequential": this rank alone reads the whole set, each sample once. Another name: samples
  /// may be drawn with replacement, and nothing is concluded from how often they come.
  std::string_view sampler = "distributed";
  std::int64_t dataset_size = 0;
  std::int64_t n_replicas = 1;  ///< Ranks that share the order.
  std::int64_t per_rank = 0;    ///< Samples each of them draws.
  bool shuffle = false;
  bool drop_last = false;
  bool pads = false;                ///< Samples are repeated to make the ranks even.
  std::uint64_t generator_key = 0;  ///< What the shuffle was seeded with.
  std::uint64_t order_digest = 0;   ///< sm64 over the order's i64 elements (tensor/digest.h).
};

/// How the batch of the last forward counts.
struct BatchAnnotation {
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;
  double denominator = 0.0;  ///< Of this rank's loss, in samples or tokens; 0 = unknown.
  /// What is meant: "sample-mean" | "token-mean" | "sum" | "rank-mean".
  std::string_view declared = "rank-mean";
};

/// A number that is reported to people.
struct MetricAnnotation {
  double value = 0.0;
  double numerator = 0.0;    ///< value = numerator / denominator,
  double denominator = 0.0;  ///< both over all ranks; 0: not known.
  /// What each sample of the evaluation on this rank is worth on its own, repeats included.
  std::span<const double> parts = {};
  /// How it follows from all samples together, unless it is a mean: `parts` then has a prediction and a
  /// target for each sample, one after the other.
  MetricFormula formula = MetricFormula::kNone;
};

/// Everything a program can say about itself. Where nothing is recorded, nothing happens.
///
/// Each word is recorded at the place of the wrapper that the program is at work with
/// (Recorder::current_wrapper), so no step, epoch or wrapper is ever passed.
///
///   rank.annotate().decision("stop", patience == 0);
///   rank.annotate().replicated("ema", {average});
///
/// Requires: outlives neither rank nor run. Copies are as cheap as a pointer's.
class Annotations {
 public:
  /// `host` knows which disk the rank's files are on; null: one that all ranks share.
  explicit Annotations(Recorder* recorder, const Host* host = nullptr)
      : recorder_(recorder), host_(host) {}

  bool on() const { return recorder_ != nullptr; }

  /// Before the first sample of a pass. What is recorded from now on belongs to that epoch, if the
  /// split is "train". Laws samples-covered, epoch-reshuffled.
  void epoch(const EpochAnnotation& words) const;
  /// Samples that a forward consumes, by ids that mean the same on all ranks and in all splits.
  void samples(std::span<const std::int64_t> ids, std::string_view split = kTrainSplit) const;
  /// Law gradient-mean: what the mean over ranks, micro-steps and samples is to be.
  void batch(const BatchAnnotation& words) const;
  /// Law metric-true: needs `parts`, and the samples of the split that was evaluated.
  void metric(std::string_view name, const MetricAnnotation& words) const;
  /// A branch that may lead to collectives: stop, skip, save. Law decisions-uniform.
  void decision(std::string_view name, std::int64_t value) const;

  /// `generator` is about to be drawn from. Once a pass is enough, before the first draw. Law
  /// rng-scopes. `worker`: the loader's worker that draws, -1 = the rank itself.
  template <typename Generator>
  void stream(std::string_view name,
              const Generator& generator,
              StreamScope scope,
              std::int64_t worker = -1) const {
    if (on()) record_stream(name, scope, worker, generator.state());
  }

  /// Tensors that the program keeps equal on all ranks by itself: moving averages, queues, target
  /// networks. They are looked at now and after each optimizer step, evaluation and at the end, as
  /// parameters are. The handles are kept: registering a name again replaces them.
  /// Law replicas-equal.
  void replicated(std::string_view name, std::span<const Tensor> tensors) const;
  void replicated(std::string_view name, std::initializer_list<Tensor> tensors) const;

  /// Which policy some buffers obey, whatever the wrapper does with them by default. Law
  /// buffers-policy.
  void buffers(std::initializer_list<std::string_view> names, BufferPolicy policy) const;

  /// Something that all ranks must have been given alike: the text of a configuration, a vocabulary,
  /// a list of files. Law environment-bijective.
  void configuration(std::string_view subject, std::string_view bytes) const;
  /// The same by its digest, for what is too large to pass.
  void configuration_digest(std::string_view subject, std::uint64_t digest) const;

  /// What became of a snapshot that the program writes by itself; fields as in SnapshotEvent. Paths
  /// on a disk that not all ranks share (environment variable LOCKSTEP_DISK) are preceded by its
  /// name. Law checkpoint-whole.
  void snapshot(SnapshotAction action,
                std::int64_t step,
                std::string_view detail,
                std::uint64_t digest = 0) const;
  void phase(PhaseKind kind) const;
  void log(std::string_view text) const;

 private:
  void record_stream(std::string_view name,
                     StreamScope scope,
                     std::int64_t worker,
                     std::span<const std::uint8_t> state) const;

  NameId name(std::string_view text) const { return recorder_->names().intern(text); }

  template <typename Body>
  void record(const Body& body) const {
    recorder_->record(body, recorder_->current_wrapper());
  }

  Recorder* recorder_;
  const Host* host_;
};

}  // namespace lockstep
