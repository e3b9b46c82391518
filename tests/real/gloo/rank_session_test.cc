// A whole run on processes: the program of a rank, its trace, the laws over all of them.
#include "lockstep/real/session/rank_session.h"

#include <csignal>

#include "lockstep/ddp/ddp.h"
#include "lockstep/functional/functions.h"
#include "lockstep/real/gloo/gloo_group.h"

#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using testing::run_processes;
using testing::TempFolder;

Result<std::unique_ptr<ProcessGroup>> connect_gloo(const BackendOptions& options,
                                                   Runtime& runtime) {
  return gloo::connect({.rank = options.place.rank,
                        .size = options.place.world_size,
                        .rendezvous = options.rendezvous,
                        .timeout = options.timeout,
                        .check_signatures = options.check_signatures},
                       runtime);
}

constexpr Backend kGloo = {"gloo", connect_gloo};

RankSessionOptions options_for(int rank, int n_ranks, const TempFolder& folder) {
  RankSessionOptions options;
  options.backend.place.rank = rank;
  options.backend.place.world_size = n_ranks;
  options.backend.rendezvous = folder.path();
  options.backend.timeout = std::chrono::seconds(5);
  return options;
}

// One weight, loss w * (rank + 1): the mean gradient over two ranks is 1.5.
void train_one_step(RankContext& context) {
  struct Model {
    Variable w;

    std::vector<NamedVariable> named_parameters() const { return {{"w", w}}; }

    std::vector<NamedVariable> named_buffers() const { return {}; }

    bool is_training() const { return true; }

    Variable forward(const Variable& x) const { return mul(w, x); }
  };

  Runtime& runtime = context.runtime();
  const double start = context.rank() == 0 ? 2.0 : 200.0;
  Model model{Variable(Tensor::of(runtime, {1}, DType::kF32, std::vector<double>{start}), true)};
  DistributedDataParallel<Model> ddp(model, context.world());
  const Variable x(Tensor::of(
      runtime, {1}, DType::kF32, std::vector<double>{static_cast<double>(context.rank() + 1)}));
  sum(ddp(x)).backward();
  EXPECT_EQ(model.w.data().at(0), 2.0);
  EXPECT_EQ(model.w.grad().at(0), 1.5);
}

TEST(RankSessionTest, RanksTrainAndEveryOneGetsTheWholeReport) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    const auto run = run_this_rank(kGloo, options_for(rank, 2, folder), train_one_step);
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(name_of(run.value().report.outcome), "ok") << render_text(run.value().report, false);
    EXPECT_EQ(run.value().report.n_ranks, 2);
    EXPECT_GT(run.value().report.n_events, 0);
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(RankSessionTest, AnExceptionOfOneRankFailsAllRanks) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    const auto run = run_this_rank(kGloo, options_for(rank, 2, folder), [](RankContext& context) {
      if (context.rank() == 1) throw std::runtime_error("no luck");
    });
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(name_of(run.value().report.outcome), "error");
    EXPECT_EQ(run.value().report.error, "rank 1: no luck");
    EXPECT_EQ(run.value().exception != nullptr, rank == 1);
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(RankSessionTest, AKilledRankLeavesItsTraceAndTheOthersSaySo) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(3, [&](int rank) {
    const auto run = run_this_rank(kGloo, options_for(rank, 3, folder), [](RankContext& context) {
      ASSERT_EQ(context.world().barrier().wait(), CommStatus::kOk);
      if (context.rank() == 2) std::raise(SIGKILL);
    });
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(name_of(run.value().report.outcome), "error");
    EXPECT_EQ(run.value().report.error, "rank 2: its trace ends before its program did");
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, -SIGKILL}));
}

TEST(RankSessionTest, AWrongAverageIsFound) {
  const TempFolder folder;
  const std::vector<int> statuses = run_processes(2, [&](int rank) {
    const auto run = run_this_rank(kGloo, options_for(rank, 2, folder), [](RankContext& context) {
      Runtime& runtime = context.runtime();
      const Tensor data = Tensor::of(runtime, {1}, DType::kF32, std::vector<double>{1.0});
      // Rank 1 reduces with another operation: its own library would never notice.
      const ReduceOp op = context.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax;
      EXPECT_EQ(context.world().all_reduce(Memory::of(data), op).wait(), CommStatus::kMismatch);
    });
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(name_of(run.value().report.outcome), "findings");
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace lockstep
