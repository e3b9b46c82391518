// Many schedules of whole jobs: healthy ones end in one state; planted bugs are found and replayed.
#include "lockstep/sim/explore/explore.h"

#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "tests/sim/explore/programs.h"

namespace lockstep::sim {
namespace {

using testing::bare;
using testing::digested;
using testing::kPlantedBugs;
using testing::PlantedBug;
using testing::SmallJob;

Exploration must_explore(const ExploreOptions& options,
                         const Session::Body& body,
                         const Judge& judge = judge_by_report) {
  auto result = explore(options, body, judge);
  EXPECT_TRUE(result.ok()) << result.error().text();
  return std::move(result).value();
}

Session::Body small_job(const SmallJob& job) {
  return [job](RankContext& context) { testing::train(job, context); };
}

TEST(ExploreTest, TenThousandRandomSchedulesOfACorrectJobEndInTheSameState) {
  const Exploration result = must_explore(
      {.session = digested(2), .strategy = "random", .n_schedules = 10'000}, small_job({}));
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.n_schedules, 10'000U);
  EXPECT_EQ(result.ends.size(), 1U);
}

TEST(ExploreTest, AllSchedulesOfACorrectJobEndInTheSameState) {
  const Exploration result = must_explore(
      {.session = digested(2), .strategy = "exhaustive", .n_schedules = 100'000}, small_job({}));
  EXPECT_TRUE(result.ok());
  EXPECT_TRUE(result.complete) << result.n_schedules;
  EXPECT_EQ(result.ends.size(), 1U);
  EXPECT_GT(result.exhaustive.n_explored, 1000U);
  EXPECT_EQ(result.exhaustive.n_redundant, 0U);
}

/// The twin: ranks that contribute what a file says at that moment.
struct LooksAround {
  std::array<double, 2> sums{};
  std::array<bool, 2> found{};

  void operator()(RankContext& context) {
    const auto rank = static_cast<std::size_t>(context.rank());
    FileSystem& files = context.host().files();
    found[rank] = files.read("seen").ok();
    EXPECT_TRUE(files.write("seen", "1").ok());
    const Tensor data = Tensor::full(context.runtime(), {1}, DType::kF32, found[rank] ? 2.0 : 1.0);
    context.world().all_reduce(Memory::of(data)).wait_or_throw();
    sums[rank] = data.at(0);
  }

  std::uint64_t state() const {
    EXPECT_EQ(sums[0], sums[1]);
    return static_cast<std::uint64_t>(sums[0]) * 4 + (found[0] ? 1U : 0U) + (found[1] ? 2U : 0U);
  }
};

TEST(ExploreTest, AResultThatDependsOnTheScheduleIsDetected) {
  LooksAround program;
  const auto body = [&program](RankContext& context) { program(context); };
  const auto judge = [&program](const SessionResult& run) {
    return Judgement{judge_by_report(run).failure, program.state()};
  };
  for (const char* strategy : {"random", "pct:depth=2", "uniform", "exhaustive"}) {
    const Exploration result =
        must_explore({.session = bare(2), .strategy = strategy, .n_schedules = 1000}, body, judge);
    EXPECT_FALSE(result.failure.has_value());
    EXPECT_FALSE(result.ok()) << strategy;
    EXPECT_TRUE(result.depends_on_schedule()) << strategy;
    // Both look before either has written, or one of the two after it.
    EXPECT_EQ(result.ends.size(), 3U) << strategy;
    for (const EndState& end : result.ends) {
      SessionOptions again = bare(2);
      again.strategy = end.schedule;
      Session session;
      const auto run = session.run(again, body);
      ASSERT_TRUE(run.ok()) << run.error().text();
      EXPECT_EQ(program.state(), end.digest) << end.schedule;
    }
  }
}

/// Messages from two ranks, received in any order: the order of arrival is the end state.
struct AnySender {
  std::string order;

  void operator()(RankContext& context) {
    const Tensor data = Tensor::full(context.runtime(), {1}, DType::kF32, context.rank());
    if (context.rank() > 0) {
      context.world().send(Memory::of(data), 0).wait_or_throw();
      return;
    }
    order.clear();
    for (int i = 0; i < 2; ++i) {
      context.world().recv_any_source(Memory::of(data)).wait_or_throw();
      order += static_cast<char>('0' + static_cast<int>(data.at(0)));
    }
  }
};

/// Drops what posts touch: messages of one receiver commute, it believes.
class ForgetsPosts final : public Strategy {
 public:
  explicit ForgetsPosts(Strategy& inner) : inner_(&inner) {}

  void start(std::int32_t n_ranks) override { inner_->start(n_ranks); }

  void on_enabled(const Action& action) override {
    Action blind = action;
    blind.footprint = 0;
    inner_->on_enabled(blind);
  }

  void on_disabled(ActionId id) override { inner_->on_disabled(id); }

  ActionId pick() override { return inner_->pick(); }

  std::string describe() const override { return inner_->describe(); }

  bool watches() const override { return true; }

  void on_touch(std::uint64_t object) override {
    const bool a_rank = object >= rank_object(Rank{0}) && object <= rank_object(Rank{2});
    if (a_rank) inner_->on_touch(object);
  }

  void on_quiet() override { inner_->on_quiet(); }

 private:
  Strategy* inner_;
};

TEST(ExploreTest, GroupsSayWhatTheirPostsShare) {
  const auto ends = [](bool reduce, bool forget) {
    const auto search = make_exhaustive({.reduce = reduce});
    ForgetsPosts forgetful(*search);
    Strategy& strategy = forget ? static_cast<Strategy&>(forgetful) : *search;
    Session session;
    AnySender program;
    std::set<std::string> orders;
    while (search->next() && search->counts().n_explored < 100'000) {
      EXPECT_TRUE(
          session.run(bare(3), strategy, [&](RankContext& context) { program(context); }).ok());
      orders.insert(program.order);
    }
    return orders;
  };
  const std::set<std::string> full = ends(false, false);
  EXPECT_EQ(full, (std::set<std::string>{"12", "21"}));
  EXPECT_EQ(ends(true, false), full);
  // The twin: treat matching posts as if they commuted, and an end is missed.
  EXPECT_NE(ends(true, true), full);
}

class PlantedBugTest : public ::testing::TestWithParam<PlantedBug> {};

std::string probe(const std::string& arguments, int& status) {
  std::FILE* pipe =
      popen((std::string(LOCKSTEP_BINARY_DIR "/bin/schedule_probe ") + arguments).c_str(), "r");
  std::string text;
  std::array<char, 256> part{};
  while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe) != nullptr) {
    text += part.data();
  }
  const int raw = pipe == nullptr ? -1 : pclose(pipe);
  status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
  return text;
}

TEST_P(PlantedBugTest, IsFoundByEachStrategyAndComesAgainInANewProcess) {
  const PlantedBug bug = GetParam();
  const auto healthy = make_replay(Schedule{});
  Session session;
  const auto fine = session.run(bare(bug.ranks), *healthy.value(), bug.body);
  ASSERT_TRUE(fine.ok());
  EXPECT_TRUE(fine.value().report.ok()) << "the default schedule does not show it";

  for (const char* strategy : {"random", "pct:depth=3", "uniform", "exhaustive"}) {
    const Exploration result = must_explore(
        {.session = bare(bug.ranks), .strategy = strategy, .n_schedules = 1000}, bug.body);
    ASSERT_TRUE(result.failure.has_value()) << strategy;
    int status = 0;
    const std::string text =
        probe("replay " + std::string(bug.name) + " " + result.failure->schedule, status);
    EXPECT_EQ(status, 1) << text;
    EXPECT_EQ(text, result.failure->what + "\n");
  }
  int status = 0;
  EXPECT_EQ(probe("replay " + std::string(bug.name) + " @", status), "ok\n");
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBugTest, ::testing::ValuesIn(kPlantedBugs));

TEST(ExploreTest, PctReportsItsBound) {
  const Exploration result = must_explore({.session = bare(2),
                                           .strategy = "pct:depth=2",
                                           .n_schedules = 2000,
                                           .stop_at_failure = false},
                                          testing::overlap_race);
  EXPECT_EQ(result.n_processes, 3U);  // Two ranks, one transfer.
  EXPECT_EQ(result.bound, 1.0 / (3.0 * static_cast<double>(result.n_steps)));
  ASSERT_TRUE(result.failure.has_value());
  EXPECT_LE(result.failure->number, 200U);
}

TEST(ExploreTest, SaysWhatItCannotDo) {
  const auto body = [](RankContext&) {};
  EXPECT_FALSE(explore({.session = bare(1), .strategy = "round-robin"}, body).ok());
  EXPECT_FALSE(explore({.session = bare(1), .strategy = "exhausting"}, body).ok());
}

TEST(ExploreTest, TheSameExplorationTwiceIsTheSame) {
  for (const char* strategy : {"random", "pct", "uniform", "exhaustive"}) {
    const auto tell = [&] {
      const Exploration result = must_explore({.session = digested(2),
                                               .strategy = strategy,
                                               .n_schedules = 300,
                                               .stop_at_failure = false},
                                              testing::overlap_race);
      std::string text = std::to_string(result.n_schedules);
      for (const EndState& end : result.ends) {
        text += ' ' + std::to_string(end.digest) + ':' + std::to_string(end.n_schedules) + ':' +
                end.schedule;
      }
      return text;
    };
    EXPECT_EQ(tell(), tell()) << strategy;
  }
}

}  // namespace
}  // namespace lockstep::sim
