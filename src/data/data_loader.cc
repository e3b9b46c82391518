#include "lockstep/data/data_loader.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/data/batch_sampler.h"
#include "lockstep/data/detail/pass_record.h"

namespace lockstep::data {
namespace {

Error refused(const char* message) { return {.message = message, .where = ""}; }

}  // namespace

Outcome DataLoader::check(const DataLoaderOptions& options) {
  LOCKSTEP_CHECK(options.global != nullptr,
                 "DataLoaderOptions::global is null: a loader needs the process's generator");
  const Result<BatchSampler> batches = BatchSampler::make(options.batch_size, options.drop_last);
  if (!batches.ok()) return batches.error();
  if (options.num_workers < 0) {
    return refused(
        "num_workers option should be non-negative; use num_workers=0 to disable "
        "multiprocessing.");
  }
  if (options.num_workers == 0 && options.prefetch_factor != 2) {
    return refused(
        "prefetch_factor option could only be specified in multiprocessing."
        "let num_workers > 0 to enable multiprocessing.");
  }
  if (options.prefetch_factor <= 0) return refused("prefetch_factor must be positive");
  if (options.persistent_workers && options.num_workers == 0) {
    return refused("persistent_workers option needs num_workers > 0");
  }
  return success();
}

Result<DataLoader> DataLoader::make(const DataLoaderOptions& options,
                                    Sampler& sampler,
                                    SampleReader& reader) {
  const Outcome fine = check(options);
  if (!fine.ok()) return fine.error();
  DataLoader loader(options, &sampler);
  loader.reader_ = &reader;
  return loader;
}

Result<DataLoader> DataLoader::make(const DataLoaderOptions& options, StreamReader& reader) {
  const Outcome fine = check(options);
  if (!fine.ok()) return fine.error();
  DataLoader loader(options, nullptr);
  loader.stream_ = &reader;
  return loader;
}

std::int64_t DataLoader::length() const {
  LOCKSTEP_CHECK(sampler_ != nullptr,
                 "length() of a DataLoader over a stream: only a loader with a sampler has one");
  return BatchSampler::make(options_.batch_size, options_.drop_last)
      .value()
      .length(sampler_->length());
}

void DataLoader::start_pass(Process& process) {
  process.pass_ended = false;
  process.active = true;
  if (stream_ != nullptr) process.pass = stream_->iterate(process.worker);
}

void DataLoader::start_processes() {
  Generator& seeds = options_.generator != nullptr ? *options_.generator : *options_.global;
  base_seed_ = seeds.random64() & 0x7fffffffffffffffULL;
  processes_.clear();
  if (options_.num_workers == 0) {
    processes_.push_back(std::make_unique<Process>());
    processes_.back()->worker.generator = options_.global;
    return;
  }
  for (std::int64_t id = 0; id < options_.num_workers; ++id) {
    processes_.push_back(std::make_unique<Process>());
    Process& process = *processes_.back();
    process.worker = {.id = id,
                      .count = options_.num_workers,
                      .seed = base_seed_ + static_cast<std::uint64_t>(id),
                      .words = numpy_worker_words(base_seed_, id),
                      .generator = &process.generator};
    process.generator.manual_seed(process.worker.seed);
    if (reader_ != nullptr) reader_->init(process.worker);
    if (stream_ != nullptr) stream_->init(process.worker);
  }
}

// Persistent workers finish what is in their queues before they are notified of the new pass.
void DataLoader::drop_tasks() {
  LoadedBatch discarded;
  if (options_.persistent_workers) {
    for (const Task& task : tasks_) fetch(*processes_[task.process], task.indices, discarded);
  }
  tasks_.clear();
}

void DataLoader::begin() {
  drop_tasks();
  if (processes_.empty() || !options_.persistent_workers) start_processes();
  for (const auto& process : processes_) start_pass(*process);
  if (sampler_ != nullptr) sampler_->begin();
  turn_ = 0;
  for (std::int64_t i = 0; i < options_.prefetch_factor * options_.num_workers; ++i) put_task();
}

bool DataLoader::next_indices(std::vector<std::int64_t>& indices) {
  indices.clear();
  if (sampler_ == nullptr) return true;  // A stream's tasks say only "the next batch".
  while (std::cmp_less(indices.size(), options_.batch_size)) {
    const std::optional<std::int64_t> index = sampler_->next();
    if (!index) break;
    indices.push_back(*index);
  }
  const bool whole = std::cmp_equal(indices.size(), options_.batch_size);
  return whole || (!options_.drop_last && !indices.empty());
}

void DataLoader::put_task() {
  Task task;
  if (!next_indices(task.indices)) return;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    task.process = turn_;
    turn_ = (turn_ + 1) % processes_.size();
    if (!processes_[task.process]->active) continue;
    tasks_.push_back(std::move(task));
    return;
  }
}

bool DataLoader::fetch_stream(Process& process, LoadedBatch& batch) const {
  while (!process.pass_ended && std::cmp_less(batch.ids.size(), options_.batch_size)) {
    process.pass_ended = !process.pass->next(process.worker, batch);
  }
  const bool whole = std::cmp_equal(batch.ids.size(), options_.batch_size);
  return whole || (!options_.drop_last && !batch.ids.empty());
}

bool DataLoader::fetch(Process& process,
                       const std::vector<std::int64_t>& indices,
                       LoadedBatch& batch) {
  batch.worker = process.worker.id;
  batch.ids.clear();
  batch.values.clear();
  if (stream_ != nullptr) return fetch_stream(process, batch);
  for (const std::int64_t index : indices) {
    batch.ids.push_back(index);
    read(index, process, batch);
  }
  return true;
}

// Whether a reader draws shows only afterwards, and the event has the state from before.
void DataLoader::read(std::int64_t index, Process& process, LoadedBatch& batch) {
  PassRecord* const record = sampler_->record();
  Generator* const generator = process.worker.generator;
  if (record == nullptr || !process.stream.is_due(record->recorder())) {
    return reader_->read(index, process.worker, batch);
  }
  const Generator before = *generator;
  reader_->read(index, process.worker, batch);
  if (before.state() == generator->state()) return;
  process.stream.before_draw(&record->recorder(), before, process.worker.id);
}

bool DataLoader::next(LoadedBatch& batch) {
  LOCKSTEP_CHECK(!processes_.empty(), "next() before begin(): begin() starts a pass");
  if (options_.num_workers == 0) put_task();
  while (!tasks_.empty()) {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    Process& process = *processes_[task.process];
    if (!process.active) continue;  // Given to it before its end was known.
    if (stream_ == nullptr && options_.num_workers > 0) put_task();
    const bool more = fetch(process, task.indices, batch);
    process.active = more;
    if (stream_ != nullptr && options_.num_workers > 0) put_task();
    if (!more) continue;
    if (sampler_ != nullptr && sampler_->record() != nullptr) sampler_->record()->read(batch.ids);
    return true;
  }
  return false;
}

std::array<std::uint32_t, 4> numpy_worker_words(std::uint64_t base_seed, std::int64_t worker) {
  std::array<std::uint32_t, 4> pool = {static_cast<std::uint32_t>(worker),
                                       static_cast<std::uint32_t>(base_seed),
                                       static_cast<std::uint32_t>(base_seed >> 32U),
                                       0};
  std::uint32_t constant = 0x43b0d7e5U;
  const auto hashed = [&constant](std::uint32_t value, std::uint32_t factor) {
    value ^= constant;
    constant *= factor;
    value *= constant;
    return value ^ (value >> 16U);
  };
  constexpr std::uint32_t kFirst = 0x931e8875U;
  constexpr std::uint32_t kLast = 0x58f38dedU;
  for (std::uint32_t& word : pool) word = hashed(word, kFirst);
  for (std::size_t from = 0; from < pool.size(); ++from) {
    for (std::size_t to = 0; to < pool.size(); ++to) {
      if (from == to) continue;
      const std::uint32_t mixed = 0xca01f9ddU * pool[to] - 0x4973f715U * hashed(pool[from], kFirst);
      pool[to] = mixed ^ (mixed >> 16U);
    }
  }
  constant = 0x8b51f9ddU;
  for (std::uint32_t& word : pool) word = hashed(word, kLast);
  return pool;
}

}  // namespace lockstep::data
