// The search itself, on programs whose schedules can be counted by hand.
#include "lockstep/sim/strategy/exhaustive.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {
namespace {

struct Ends {
  std::set<std::string> states;
  ExhaustiveCounts counts;
};

/// Runs every schedule of `program`, which writes its end state down.
template <typename Program>
Ends all_ends(std::int32_t n_ranks, Exhaustive& search, Strategy& strategy, Program program) {
  World world;
  Ends ends;
  while (search.next()) {
    std::string state;
    world.run({.n_ranks = n_ranks}, strategy, [&](RankHandle& rank) { program(rank, state); });
    ends.states.insert(state);
  }
  ends.counts = search.counts();
  return ends;
}

template <typename Program>
Ends all_ends(std::int32_t n_ranks, bool reduce, Program program) {
  const auto search = make_exhaustive({.reduce = reduce});
  return all_ends(n_ranks, *search, *search, program);
}

char letter(const RankHandle& rank) { return static_cast<char>('a' + to_int(rank.rank())); }

// Each rank is picked three times: 6! / (3! 3!) orders, all of which end in the same state.
TEST(ExhaustiveTest, RanksThatShareNothingNeedOneSchedule) {
  const auto program = [](RankHandle& rank, std::string&) {
    rank.point({});
    rank.point({});
  };
  EXPECT_EQ(all_ends(2, false, program).counts.n_explored, 20U);
  const Ends reduced = all_ends(2, true, program);
  EXPECT_EQ(reduced.counts.n_explored, 1U);
  EXPECT_EQ(reduced.counts.n_redundant, 0U);
  EXPECT_GT(reduced.counts.n_pruned, 0U);
}

// Three ranks write one word each to a shared line: 3! lines, and as many schedules.
TEST(ExhaustiveTest, EveryOrderOfASharedObjectRunsOnce) {
  const auto program = [](RankHandle& rank, std::string& line) {
    rank.point({PointKind::kYield, 1});
    line += letter(rank);
  };
  const Ends reduced = all_ends(3, true, program);
  EXPECT_EQ(reduced.states, (std::set<std::string>{"abc", "acb", "bac", "bca", "cab", "cba"}));
  EXPECT_EQ(reduced.counts.n_explored, 6U);
}

struct DrawnSize {
  std::int32_t n_ranks = 2;
  std::size_t most_ops = 3;  ///< Of a rank.
  std::size_t n_lines = 2;
};

/// A seeded program: each rank does a few operations on some shared lines.
class Drawn {
 public:
  Drawn(const DrawnSize& size, std::uint64_t seed)
      : n_lines_(size.n_lines), ops_(static_cast<std::size_t>(size.n_ranks)) {
    std::uint64_t word = seed * 2654435761U + 12345;
    for (std::vector<std::size_t>& ops : ops_) {
      word = word * 6364136223846793005U + 1442695040888963407U;
      const std::size_t n = 1 + (word >> 33U) % size.most_ops;
      for (std::size_t i = 0; i < n; ++i) {
        word = word * 6364136223846793005U + 1442695040888963407U;
        ops.push_back((word >> 33U) % (n_lines_ + 1));  // The last one: a separate operation.
      }
    }
  }

  void operator()(RankHandle& rank, std::string& state) const {
    if (state.empty()) state.assign(n_lines_, '|');
    for (const std::size_t op : ops_[to_index(rank.rank())]) {
      rank.point({PointKind::kYield, op < n_lines_ ? op + 1 : 0});
      if (op == n_lines_) continue;
      std::size_t end = state.find('|');
      for (std::size_t line = 0; line < op; ++line) end = state.find('|', end + 1);
      state.insert(end, 1, letter(rank));
    }
  }

 private:
  std::size_t n_lines_;
  std::vector<std::vector<std::size_t>> ops_;
};

// The lines tell all orders that matter apart: one schedule an end, no more and no fewer.
TEST(ExhaustiveTest, ReducedAndFullSearchFindTheSameEnds) {
  constexpr DrawnSize kSizes[] = {{2, 3, 2}, {3, 2, 2}, {3, 2, 3}, {4, 1, 2}, {4, 1, 3}};
  for (const DrawnSize& size : kSizes) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const Drawn program(size, seed);
      const Ends full = all_ends(size.n_ranks, false, program);
      const Ends reduced = all_ends(size.n_ranks, true, program);
      ASSERT_EQ(reduced.states, full.states) << size.n_ranks << " ranks, seed " << seed;
      EXPECT_EQ(reduced.counts.n_explored, full.states.size()) << seed;
    }
  }
}

/// Passes everything on but what actions touch besides their ranks.
class Forgetful final : public Strategy {
 public:
  explicit Forgetful(Strategy& inner) : inner_(&inner) {}

  void start(std::int32_t n_ranks) override { inner_->start(n_ranks); }

  void on_enabled(const Action& action) override { inner_->on_enabled(action); }

  void on_disabled(ActionId id) override { inner_->on_disabled(id); }

  ActionId pick() override { return inner_->pick(); }

  std::string describe() const override { return inner_->describe(); }

  bool watches() const override { return true; }

  void on_quiet() override { inner_->on_quiet(); }

 private:
  Strategy* inner_;
};

// The twin: a relation in which operations on one object commute misses ends.
TEST(ExhaustiveTest, ForgettingWhatIsSharedIsNoticed) {
  int n_missed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Drawn program({}, seed);
    const Ends full = all_ends(2, false, program);
    const auto search = make_exhaustive({});
    Forgetful forgetful(*search);
    const Ends wrong = all_ends(2, *search, forgetful, program);
    EXPECT_EQ(wrong.counts.n_explored, 1U);
    if (wrong.states != full.states) ++n_missed;
  }
  EXPECT_GT(n_missed, 10);
}

/// Starts a transfer that writes to the shared line when it happens.
class Writer final : public ActionHandler {
 public:
  void on_action(const Action& action) override {
    done[to_index(action.rank)] = true;
    *line += static_cast<char>('A' + to_int(action.rank));
    if (world->is_blocked(action.rank)) world->wake(action.rank);
  }

  World* world = nullptr;
  std::string* line = nullptr;
  bool done[3] = {};
};

// A transfer is enabled by a rank, happens at any time, and its rank waits for it in the end.
TEST(ExhaustiveTest, TransfersAndWaitsAreReorderedToo) {
  for (const std::uint64_t shared : {0U, 1U}) {
    Ends ends[2];
    for (const bool reduce : {false, true}) {
      const auto search = make_exhaustive({.reduce = reduce});
      World world;
      while (search->next()) {
        std::string line;
        Writer writer;
        writer.world = &world;
        writer.line = &line;
        world.run({.n_ranks = 3}, *search, [&](RankHandle& rank) {
          const auto number = static_cast<std::uint64_t>(to_int(rank.rank()));
          if (number < 2) {
            world.enable({.id = action_id(ActionKind::kTransfer, number),
                          .kind = ActionKind::kTransfer,
                          .rank = rank.rank(),
                          .footprint = 7},
                         writer);
          }
          rank.point({PointKind::kYield, shared == 0 ? 0 : 7 * (number / 2)});
          if (number == 2 && shared != 0) line += 'c';
          while (number < 2 && !writer.done[number]) rank.block({.what = "transfer"});
        });
        ends[reduce ? 1 : 0].states.insert(line);
      }
      ends[reduce ? 1 : 0].counts = search->counts();
    }
    EXPECT_EQ(ends[1].states, ends[0].states);
    EXPECT_EQ(ends[0].states.size(), shared == 0 ? 2U : 6U);
    EXPECT_LT(ends[1].counts.n_explored * 10, ends[0].counts.n_explored);
  }
}

// Time is a barrier: what follows a sleep never comes before what made all ranks wait.
TEST(ExhaustiveTest, TimePassesInEverySchedule) {
  const auto program = [](RankHandle& rank, std::string& line) {
    rank.point({PointKind::kYield, 1});
    line += letter(rank);
    rank.sleep({10});
    rank.point({PointKind::kYield, 1});
    line += static_cast<char>(letter(rank) - 'a' + 'A');
  };
  const Ends reduced = all_ends(2, true, program);
  EXPECT_EQ(reduced.states, (std::set<std::string>{"abAB", "abBA", "baAB", "baBA"}));
  EXPECT_EQ(all_ends(2, false, program).states, reduced.states);
}

TEST(ExhaustiveTest, EverySearchedScheduleReplays) {
  const auto program = [](RankHandle& rank, std::string& line) {
    for (int i = 0; i < 2; ++i) {
      rank.point({PointKind::kYield, 1});
      line += letter(rank);
    }
  };
  const auto search = make_exhaustive({});
  World world;
  int n = 0;
  while (search->next()) {
    std::string line;
    world.run({.n_ranks = 2}, *search, [&](RankHandle& rank) { program(rank, line); });
    const auto replay = make_replay(decode_schedule(search->describe()).value());
    std::string again;
    world.run({.n_ranks = 2}, *replay.value(), [&](RankHandle& rank) { program(rank, again); });
    EXPECT_EQ(again, line) << search->describe();
    EXPECT_TRUE(replay.value()->skipped().empty());
    ++n;
  }
  EXPECT_EQ(n, 6);
}

}  // namespace
}  // namespace lockstep::sim
