// The join context itself: user-made joinables, errors, skew, and what happens without it.
#include <stdexcept>

#include <gtest/gtest.h>

#include "lockstep/reducer/comm_hook.h"
#include "lockstep/tensor/kernels.h"

#include "tests/ddp/two_parameters.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::flat_term;
using testing::forward_backward;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using Texts = std::vector<std::string>;

/// Counts iterations over all ranks: one all-reduce each, of 1 where inputs are left. (The joinable
/// of PyTorch's tutorial.)
class Counter final : public Joinable {
 public:
  Counter(MiniRank& rank, std::string name, Texts& log)
      : rank_(&rank), name_(std::move(name)), log_(&log) {}

  void operator()() {
    static_cast<void>(notify_join_context({}));
    total_ += sum_of(1.0);
  }

  double total() const { return total_; }

  std::unique_ptr<JoinHook> join_hook(const JoinOptions& /*options*/) override {
    class Hook final : public JoinHook {
     public:
      explicit Hook(Counter& counter) : counter_(&counter) {}

      void main_hook() override {
        counter_->log_->push_back(counter_->name_ + " shadows");
        static_cast<void>(counter_->sum_of(0.0));
      }

      void post_hook(bool is_last_joiner) override {
        counter_->log_->push_back(counter_->name_ + (is_last_joiner ? " was last" : " ended"));
      }

     private:
      Counter* counter_;
    };

    return std::make_unique<Hook>(*this);
  }

  ProcessGroup& join_process_group() const override { return rank_->group; }

 private:
  double sum_of(double value) const {
    const Tensor tensor = Tensor::full(rank_->runtime, {2}, DType::kF32, value);
    rank_->group.all_reduce(Memory::of(tensor)).wait_or_throw();
    return tensor.at(0);
  }

  MiniRank* rank_;
  std::string name_;
  Texts* log_;
  double total_ = 0.0;
};

TEST(JoinTest, UserMadeJoinablesAreShadowedInTheirOrderAndOnlyTheFirstNotifies) {
  std::vector<Texts> logs(3);
  std::vector<double> totals(3);
  const MiniResult result = run_mini_world({.n_ranks = 3}, [&](MiniRank& rank) {
    const auto r = static_cast<std::size_t>(rank.rank);
    Counter first(rank, "first", logs[r]);
    Counter second(rank, "second", logs[r]);
    Join join({&first, &second});
    join.run([&] {
      for (std::size_t i = 0; i <= r; ++i) {
        first();
        second();
      }
    });
    totals[r] = first.total();
  });
  ASSERT_TRUE(result.ok()) << result.error(0) << result.error(1) << result.error(2);
  EXPECT_EQ(logs[0],
            Texts({"first shadows",
                   "second shadows",
                   "first shadows",
                   "second shadows",
                   "first ended",
                   "second ended"}));
  EXPECT_EQ(logs[1], Texts({"first shadows", "second shadows", "first ended", "second ended"}));
  EXPECT_EQ(logs[2], Texts({"first was last", "second was last"}));
  EXPECT_EQ(totals, std::vector<double>({3, 5, 6})) << "3, then 2, then 1 active ranks";
  const Texts round = {"AR f32[1]", "AR f32[2]", "AR f32[2]"};
  Texts expected;
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), round.begin(), round.end());
  expected.push_back("AR f32[1]");
  for (std::int32_t r = 0; r < 3; ++r) EXPECT_EQ(collectives_of(*result.trace, r), expected);
}

TEST(JoinTest, RefusesNoJoinableAndSeveralGroups) {
  const MiniResult none =
      run_mini_world({}, [](MiniRank& /*rank*/) { const Join join(std::vector<Joinable*>{}); });
  EXPECT_EQ(none.error(0), "The join context manager requires at least one joinable");

  std::vector<std::string> errors;
  Texts log;
  run_mini_world({.n_ranks = 1}, [&](MiniRank& one) {
    run_mini_world({.n_ranks = 1}, [&](MiniRank& other) {
      Counter a(one, "a", log);
      Counter b(other, "b", log);
      try {
        const Join join({&a, &b});
      } catch (const std::invalid_argument& e) {
        errors.emplace_back(e.what());
      }
    });
  });
  EXPECT_EQ(errors, Texts({"Using join context manager with multiple process groups"}));
}

TEST(JoinTest, ABodyThatThrowsLeavesWithoutCollectives) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    Texts log;
    Counter counter(rank, "counter", log);
    Join join({&counter});
    join.run([] { throw std::runtime_error("bad batch"); });
  });
  EXPECT_EQ(result.error(0), "bad batch");
  EXPECT_EQ(result.error(1), "bad batch");
  EXPECT_EQ(collectives_of(*result.trace, 0), Texts());
}

TEST(JoinTest, OneRankThatThrowsLeavesTheOthersWaiting) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    Texts log;
    Counter counter(rank, "counter", log);
    Join join({&counter});
    join.run([&] {
      counter();
      if (rank.rank == 0) throw std::runtime_error("bad batch");
    });
  });
  EXPECT_EQ(result.error(0), "bad batch");
  EXPECT_NE(result.error(1).find("all_reduce"), std::string::npos) << result.error(1);
}

TEST(JoinTest, ASkewOfMoreThanAThousandIsReportedOnce) {
  std::vector<Texts> logs(2);
  const auto run = [&](int n_extra) {
    const MiniResult result =
        run_mini_world({.n_ranks = 2, .recorded = false}, [&](MiniRank& rank) {
          Texts log;
          Counter counter(rank, "counter", log);
          Join join({&counter});
          join.run([&] {
            for (int i = 0; i < (rank.rank == 0 ? 1 : 1 + n_extra); ++i) counter();
          });
          logs[static_cast<std::size_t>(rank.rank)] = rank.host.lines;
        });
    EXPECT_TRUE(result.ok()) << result.error(0);
  };
  run(1001);
  EXPECT_EQ(logs[0].size(), 1U);
  run(1000);
  EXPECT_EQ(logs[0], Texts());
  run(1200);
  EXPECT_EQ(logs[0],
            Texts({"Detected uneven input skew of greater than 1000. This means that rank 0 has at "
                   "least 1000 fewer inputs than other currently-active ranks. This level of skew "
                   "could lead to performance degradation during training."}));
  EXPECT_EQ(logs[1], Texts());
}

std::vector<double> uneven_training(bool joined, MiniResult& result) {
  std::vector<double> grads;
  result = run_mini_world({}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0.0});
    Ddp ddp(model.state(), rank.group, {});
    Join join({&ddp}, {.enable = joined});
    join.run([&] {
      for (int i = 0; i <= rank.rank * 2; ++i) {
        w.set_grad(Tensor());
        forward_backward(ddp, [&] { return flat_term(w, rank.rank + 1.0); });
        if (rank.rank == 1) grads.push_back(grad_of(w)[0]);
      }
    });
  });
  return grads;
}

TEST(JoinTest, UnevenInputsHangWithoutIt) {
  MiniResult result;
  EXPECT_EQ(uneven_training(true, result), std::vector<double>({1.5, 1.0, 1.0}));
  EXPECT_TRUE(result.ok()) << result.error(0) << result.error(1);

  EXPECT_EQ(uneven_training(false, result), std::vector<double>({1.5}));
  EXPECT_EQ(result.error(0), "") << "the rank that ran out is simply done";
  EXPECT_NE(result.error(1), "") << "the other waits for it";
}

/// Divides by the group's size, then sums: PyTorch's allreduce hook.
class MeanHook final : public CommHook {
 public:
  explicit MeanHook(ProcessGroup& group) : group_(&group) {}

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override {
    const Tensor& buffer = bucket.buffer();
    buffer.runtime().kernels().div_scalar(buffer, buffer, static_cast<double>(group_->size()));
    return testing::sum_of(*group_, bucket);
  }

 private:
  ProcessGroup* group_;
};

// Observed on PyTorch 1.13: 1.5, 1.0, 1.0, where the reducer itself would give 1.5, 2.0, 2.0.
TEST(JoinTest, CommunicationHooksIgnoreTheDivision) {
  std::vector<double> grads;
  const MiniResult result = run_mini_world({}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0.0});
    Ddp ddp(model.state(), rank.group, {});
    MeanHook hook(rank.group);
    ddp.register_comm_hook(hook);
    Join join({&ddp}, {.divide_by_initial_world_size = false});
    join.run([&] {
      for (int i = 0; i <= rank.rank * 2; ++i) {
        w.set_grad(Tensor());
        forward_backward(ddp, [&] { return flat_term(w, rank.rank + 1.0); });
        if (rank.rank == 1) grads.push_back(grad_of(w)[0]);
      }
    });
  });
  EXPECT_TRUE(result.ok()) << result.error(0) << result.error(1);
  EXPECT_EQ(grads, std::vector<double>({1.5, 1.0, 1.0}));
}

TEST(JoinTest, EveryRankEndsWithTheLastJoinersState) {
  std::vector<std::vector<double>> values(3);
  const MiniResult result = run_mini_world({.n_ranks = 3}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0.0});
    const Variable seen = model.buffer("seen", {0.0});
    Ddp ddp(model.state(), rank.group, {});
    const int lengths[] = {1, 3, 3};
    Join join({&ddp});
    join.run([&] {
      for (int i = 0; i < lengths[rank.rank]; ++i) {
        forward_backward(ddp, [&] { return flat_term(w, 1.0); });
        w.data().data<float>()[0] = static_cast<float>(10 * rank.rank + i);
        seen.data().data<float>()[0] = static_cast<float>(100 * rank.rank + i);
      }
    });
    values[static_cast<std::size_t>(rank.rank)] = {w.data().at(0), seen.data().at(0)};
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  for (const std::vector<double>& state : values) {
    EXPECT_EQ(state, std::vector<double>({22, 202})) << "the larger of the two that ended last";
  }
}

}  // namespace
}  // namespace lockstep
