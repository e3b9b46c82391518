// Batches of samples as PyTorch's DataLoader yields them: which indices, in which order, and what
// every worker draws on the way.
//
// There are no threads and no processes here. A worker is a value: its own generator and a
// queue of tasks. What real workers compute depends on nothing but the order of their own tasks, so
// carrying a task out when its batch is asked for gives the same batches.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/sampler.h"
#include "lockstep/random/generator.h"
#include "lockstep/trace/stream_record.h"

namespace lockstep::data {

/// Where a sample is read: the main process (no workers), or one of the workers.
struct Worker {
  std::int64_t id = -1;                     ///< 0 .. count-1; -1: the main process.
  std::int64_t count = 0;                   ///< Workers of the loader.
  std::uint64_t seed = 0;                   ///< Base seed + id; 0 in the main process.
  std::array<std::uint32_t, 4> words = {};  ///< What NumPy's generator is seeded with there.
  Generator* generator = nullptr;           ///< The default generator of that process.
};

/// One batch, or a sample's part of it.
struct LoadedBatch {
  std::int64_t worker = -1;            ///< Who read it; -1: the main process.
  std::vector<std::int64_t> ids = {};  ///< The samples, in order.
  std::vector<double> values = {};     ///< What reading them produced, as much as the reader says.
};

/// The code of a map-style data set, run where the loader runs it.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// `worker_init_fn`: runs once in each new worker, after its generators were seeded.
  virtual void init(Worker& /*worker*/) {}

  /// Reads one sample: appends to `batch.values` what it produces. The id is appended for it.
  virtual void read(std::int64_t index, Worker& worker, LoadedBatch& batch) = 0;
};

/// One pass over a stream, in one process.
class StreamPass {
 public:
  virtual ~StreamPass() = default;
  /// Appends the next sample to ids and values. Returns: false at the end, and ever after.
  virtual bool next(Worker& worker, LoadedBatch& batch) = 0;
};

/// The code of an iterable-style data set. Every process that reads it has its own copy: what
/// is not divided by worker (and by rank) is read once by each.
class StreamReader {
 public:
  virtual ~StreamReader() = default;

  /// Called in each worker when it starts, before it reads. Default: nothing.
  virtual void init(Worker& /*worker*/) {}

  /// `iter(dataset)`: once a pass and process.
  virtual std::unique_ptr<StreamPass> iterate(Worker& worker) = 0;
};

/// Names and defaults are PyTorch's.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool drop_last = false;
  std::int64_t num_workers = 0;
  std::int64_t prefetch_factor = 2;  ///< Tasks a worker holds ahead of what was asked for.
  bool persistent_workers = false;   ///< Keep workers, and their generators, between passes.
  /// The main process's default generator. Never null. Without workers readers draw from it.
  Generator* global = nullptr;
  /// `generator=`: base seeds are drawn from it; null: from `global`. A RandomSampler made for
  /// shuffle=True is given the same one (sampler.h).
  Generator* generator = nullptr;
};

/// Yields batches, pass after pass.
///
/// Over a sampler that was made with a rank's context it records the samples of each batch as that
/// is yielded, and each generator that a reader draws from, before its first draw of a pass, as the
/// private stream "loader".
///
/// begin() draws a base seed (two draws), with workers and without, unless workers persist from an
/// earlier pass. Worker i is seeded with base seed + i. Indices are drawn in the main process, by
/// as many tasks ahead as workers hold; tasks go to the workers in turn, and batches are yielded in
/// the order of the tasks. With a stream, a worker that has reached its end is passed over from
/// then on.
///
/// Deterministic: a function of the options, the sampler, the reader and the generators' states.
/// Errors: what a reader throws comes out of next() when it is that batch's turn.
/// Source: PyTorch 1.13, torch/utils/data/dataloader.py and _utils/{worker,fetch}.py.
class DataLoader {
 public:
  /// Map style. Errors: options out of range, in PyTorch's words. All arguments must outlive it.
  static Result<DataLoader> make(const DataLoaderOptions& options,
                                 Sampler& sampler,
                                 SampleReader& reader);
  /// Iterable style.
  static Result<DataLoader> make(const DataLoaderOptions& options, StreamReader& reader);

  /// Starts a pass. What is left of an unfinished one is dropped; persistent workers finish the
  /// tasks they hold first, which moves their generators on.
  void begin();

  /// Replaces `batch` by the next one. Returns: false at the end of the pass.
  bool next(LoadedBatch& batch);

  /// Batches of a map-style pass: `len(loader)`. Requires: a loader with a sampler.
  std::int64_t length() const;

  /// The base seed of the current workers, or the last one drawn.
  std::uint64_t base_seed() const { return base_seed_; }

 private:
  /// A worker and what it remembers; heap, because `worker.generator` points into it.
  struct Process {
    Worker worker;
    Generator generator{};
    std::unique_ptr<StreamPass> pass{};
    StreamRecord stream{"loader"};  ///< Of its generator.
    bool pass_ended = false;        ///< The reader has said so.
    bool active = true;             ///< The main process still gives it tasks.
  };

  struct Task {
    std::size_t process = 0;
    std::vector<std::int64_t> indices;  ///< Map style.
  };

  DataLoader(const DataLoaderOptions& options, Sampler* sampler)
      : options_(options), sampler_(sampler) {}

  static Outcome check(const DataLoaderOptions& options);
  void start_processes();
  void start_pass(Process& process);
  bool next_indices(std::vector<std::int64_t>& indices);
  void put_task();
  void drop_tasks();
  bool fetch(Process& process, const std::vector<std::int64_t>& indices, LoadedBatch& batch);
  bool fetch_stream(Process& process, LoadedBatch& batch) const;
  void read(std::int64_t index, Process& process, LoadedBatch& batch);

  DataLoaderOptions options_;
  Sampler* sampler_ = nullptr;
  SampleReader* reader_ = nullptr;
  StreamReader* stream_ = nullptr;
  std::uint64_t base_seed_ = 0;
  std::vector<std::unique_ptr<Process>> processes_{};  ///< One for the main process if no workers.
  std::deque<Task> tasks_{};
  std::size_t turn_ = 0;  ///< The process that is asked next.
};

/// The four words that NumPy's generator is seeded with in a worker.
///
/// Source: O'Neill's seed sequence, as in PyTorch 1.13, _utils/worker.py.
std::array<std::uint32_t, 4> numpy_worker_words(std::uint64_t base_seed, std::int64_t worker);

}  // namespace lockstep::data
