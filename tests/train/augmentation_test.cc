#include "lockstep/train/augmentation.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/trace/memory_trace.h"
#include "lockstep/trace/recorder.h"

#include "tests/train/one_rank.h"

namespace lockstep::testing {

namespace {

Job augmented(std::int32_t n_workers) {
  Job job;
  job.train = column_data({1.0, 2.0, 3.0, 4.0}, {1.0, 2.0, 3.0, 4.0});
  job.loader.batch = 2;
  job.loader.workers = n_workers;
  job.loader.augment = {.stream = AugmentStream::kWorker};
  return job;
}

TEST(AugmentationTest, EveryPassRecordsWhoDrawsAnew) {
  for (const std::int32_t n_workers : {0, 2}) {
    OneRank one;
    MemoryTrace trace{std::make_shared<NameTable>()};
    trace.ensure_ranks(1);
    Recorder recorder(Rank{0}, one.host(), *trace.shared_names(), trace, {});
    one.runtime().set_recorder(&recorder);
    const Job job = augmented(n_workers);
    Augmentation augmentation(job, one.context());
    std::vector<std::int64_t> workers;
    for (int pass = 0; pass < 2; ++pass) augmentation.signs({0, 1, 2, 3});
    for (const Event& event : trace.events(Rank{0})) {
      if (const auto* rng = std::get_if<RngEvent>(&event.body)) workers.push_back(rng->worker);
    }
    one.runtime().set_recorder(nullptr);
    EXPECT_EQ(workers,
              n_workers == 0 ? (std::vector<std::int64_t>{-1, -1})
                             : (std::vector<std::int64_t>{0, 1, 0, 1}));
  }
}

}  // namespace
}  // namespace lockstep::testing
