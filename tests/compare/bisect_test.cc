// The first difference, found in a logarithmic number of comparisons, against a scan of everything.
#include "lockstep/compare/bisect.h"

#include <cmath>
#include <gmock/gmock.h>
#include <random>

#include <gtest/gtest.h>

#include "lockstep/compare/detail/digest_tree.h"

#include "tests/support/ddp_job.h"
#include "tests/support/event_stream.h"

namespace lockstep {
namespace {

using laws::DigestTree;
using laws::TreePlace;
using testing::EventStream;

using Steps = std::vector<std::vector<std::uint64_t>>;

std::int64_t log2_up(std::size_t n) {
  return static_cast<std::int64_t>(std::ceil(std::log2(static_cast<double>(n))));
}

/// Leaf by leaf; a side that ends earlier differs where the other one continues.
std::optional<TreePlace> scan(const Steps& a, const Steps& b) {
  for (std::size_t step = 0; step < std::max(a.size(), b.size()); ++step) {
    if (step >= a.size() || step >= b.size()) return TreePlace{step, 0};
    for (std::size_t leaf = 0; leaf < std::max(a[step].size(), b[step].size()); ++leaf) {
      if (leaf >= a[step].size() || leaf >= b[step].size()) return TreePlace{step, leaf};
      if (a[step][leaf] != b[step][leaf]) return TreePlace{step, leaf};
    }
  }
  return std::nullopt;
}

DigestTree tree_of(const Steps& steps, DigestTree::Join join = laws::join_digests) {
  DigestTree tree(join);
  for (const auto& leaves : steps) tree.add_step(leaves);
  return tree;
}

/// Two sides that differ in a few places, in their lengths, or not at all.
struct Pair {
  explicit Pair(std::uint32_t seed) : draw(seed) {
    left.resize(1 + draw() % 70);
    for (auto& leaves : left) {
      leaves.resize(1 + draw() % 50);
      for (std::uint64_t& leaf : leaves) leaf = draw() | 1U;
    }
    right = left;
    for (auto n = draw() % 4; n > 0; --n) change();
  }

  void change() {
    auto& leaves = right[draw() % right.size()];
    const std::size_t at = draw() % leaves.size();
    const auto here = leaves.begin() + static_cast<std::ptrdiff_t>(at);
    switch (draw() % 5) {
      case 0:
        leaves.insert(here, draw() | 1U);
        break;
      case 1:
        if (leaves.size() > 1) leaves.erase(here);
        break;
      case 2:
        right.emplace_back(1 + draw() % 9, draw() | 1U);
        break;
      default:
        leaves[at] ^= std::uint64_t{2} << (draw() % 60);
    }
  }

  std::size_t n_steps() const { return std::max(left.size(), right.size()); }

  std::size_t most_leaves() const {
    std::size_t most = 1;
    for (const Steps* side : {&left, &right}) {
      for (const auto& leaves : *side) most = std::max(most, leaves.size());
    }
    return most;
  }

  std::mt19937 draw;
  Steps left;
  Steps right;
};

TEST(DigestTreeTest, FindsWhatAScanFindsInLogarithmicallyManyComparisons) {
  std::size_t n_different = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    const Pair pair(seed);
    const DigestTree left = tree_of(pair.left);
    const DigestTree right = tree_of(pair.right);
    const DigestTree* const trees[] = {&left, &right};

    const laws::TreeSearch search = laws::first_difference_of(trees);

    ASSERT_EQ(search.first, scan(pair.left, pair.right)) << "seed " << seed;
    ASSERT_LE(search.n_comparisons, log2_up(pair.n_steps() + 1) + log2_up(pair.most_leaves()))
        << "seed " << seed;
    if (search.first) ++n_different;
  }
  EXPECT_GT(n_different, 250U);
}

std::uint64_t left_child_only(std::uint64_t left, std::uint64_t /*right*/) {
  return laws::join_digests(left, 1);
}

std::uint64_t sum_of_children(std::uint64_t left, std::uint64_t right) { return left + right; }

TEST(DigestTreeTest, AJoinThatForgetsAChildGivesWrongAnswers) {
  std::size_t n_wrong = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const Pair pair(seed);
    const DigestTree left = tree_of(pair.left, left_child_only);
    const DigestTree right = tree_of(pair.right, left_child_only);
    const DigestTree* const trees[] = {&left, &right};
    if (laws::first_difference_of(trees).first != scan(pair.left, pair.right)) ++n_wrong;
  }
  EXPECT_GT(n_wrong, 25U);
}

TEST(DigestTreeTest, LeavesThatChangePlacesAreADifference) {
  const Steps left = {{3, 5, 7, 9}};
  const Steps right = {{3, 7, 5, 9}};
  const DigestTree a = tree_of(left);
  const DigestTree b = tree_of(right);
  const DigestTree* const trees[] = {&a, &b};
  EXPECT_EQ(laws::first_difference_of(trees).first, (TreePlace{0, 1}));

  // A join that does not know left from right sees nothing.
  const Steps swapped = {{5, 3, 7, 9}};
  const DigestTree c = tree_of(left, sum_of_children);
  const DigestTree d = tree_of(swapped, sum_of_children);
  const DigestTree* const blind[] = {&c, &d};
  EXPECT_NE(laws::first_difference_of(blind).first, (TreePlace{0, 0}));
}

TEST(DigestTreeTest, ManySidesCostOneComparisonMoreEach) {
  const Steps steps(1000, std::vector<std::uint64_t>(64, 11));
  Steps odd = steps;
  odd[617][42] = 13;
  const DigestTree same = tree_of(steps);
  const DigestTree other = tree_of(odd);
  const DigestTree* const trees[] = {&same, &same, &same, &other};

  const laws::TreeSearch search = laws::first_difference_of(trees);

  EXPECT_EQ(search.first, (TreePlace{617, 42}));
  EXPECT_LE(search.n_comparisons, 3 * (10 + 6));  // 2^10 > 1000, 2^6 = 64.
  EXPECT_GE(search.n_comparisons, 10 + 6);
}

/// A job whose every digest is known: by rank, step and tensor.
class DrawnJob {
 public:
  DrawnJob(std::int32_t n_ranks, std::int32_t n_steps, std::uint32_t n_tensors)
      : n_ranks_(n_ranks), n_steps_(n_steps), n_tensors_(n_tensors) {}

  struct Change {
    std::int32_t rank = 0;
    std::int32_t step = 0;
    std::uint32_t tensor = 0;
    friend bool operator==(const Change&, const Change&) = default;
  };

  EventStream with(const std::vector<Change>& changes) const {
    EventStream stream(n_ranks_);
    std::vector<NameId> names;
    for (std::uint32_t i = 0; i < n_tensors_; ++i) {
      names.push_back(stream.name("w" + std::to_string(i)));
    }
    const LayoutId layout = stream.names().intern_layout(names);
    for (std::int32_t rank = 0; rank < n_ranks_; ++rank) {
      stream.at(rank) = {.attempt = 0, .wrapper = 0, .sync = -1, .micro = 0, .opt = 0, .epoch = 0};
      stream.add(rank, WrapEvent{.params = layout, .n_ranks = n_ranks_});
      for (std::int32_t step = 0; step < n_steps_; ++step) {
        ++stream.at(rank).sync;
        std::vector<std::uint64_t> digests;
        for (std::uint32_t i = 0; i < n_tensors_; ++i) {
          const bool changed =
              std::find(changes.begin(), changes.end(), Change{rank, step, i}) != changes.end();
          digests.push_back(static_cast<std::uint64_t>(step) * 100 + i + (changed ? 5000 : 0));
        }
        stream.add(rank, ForwardEvent{});
        stream.add(rank,
                   StateEvent{.kind = StateKind::kParam,
                              .point = StatePoint::kStep,
                              .layout = layout,
                              .digests = digests});
        ++stream.at(rank).opt;
      }
    }
    return stream;
  }

 private:
  std::int32_t n_ranks_;
  std::int32_t n_steps_;
  std::uint32_t n_tensors_;
};

TEST(BisectTest, TwoRunsDifferFirstWhereTheScanSaysSo) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 draw(seed);
    const auto n_ranks = static_cast<std::int32_t>(1 + draw() % 4);
    const auto n_steps = static_cast<std::int32_t>(1 + draw() % 12);
    const auto n_tensors = static_cast<std::uint32_t>(1 + draw() % 9);
    const DrawnJob job(n_ranks, n_steps, n_tensors);
    std::vector<DrawnJob::Change> changes;
    for (auto n = 1 + draw() % 3; n > 0; --n) {
      changes.push_back({static_cast<std::int32_t>(draw() % static_cast<std::uint32_t>(n_ranks)),
                         static_cast<std::int32_t>(draw() % static_cast<std::uint32_t>(n_steps)),
                         static_cast<std::uint32_t>(draw() % n_tensors)});
    }
    const auto earlier = [](const DrawnJob::Change& a, const DrawnJob::Change& b) {
      return std::tuple(a.step, a.rank, a.tensor) < std::tuple(b.step, b.rank, b.tensor);
    };
    const auto wanted = *std::min_element(changes.begin(), changes.end(), earlier);
    const EventStream left = job.with({});
    const EventStream right = job.with(changes);

    const Bisection found = bisect_runs(left.trace(), right.trace());

    ASSERT_TRUE(found.first) << "seed " << seed;
    EXPECT_EQ(found.first->ranks, std::vector<Rank>{Rank{wanted.rank}}) << "seed " << seed;
    EXPECT_EQ(found.first->at.sync, wanted.step) << "seed " << seed;
    EXPECT_EQ(found.first->tensor, "w" + std::to_string(wanted.tensor)) << "seed " << seed;
    EXPECT_EQ(found.first->event, "param.step");
    // A forward and a list of tensors per rank and step, and one step before the first.
    const auto n_entries = static_cast<std::size_t>(n_ranks) * (2 + n_tensors);
    EXPECT_LE(found.n_comparisons,
              log2_up(static_cast<std::size_t>(n_steps) + 2) + log2_up(n_entries));
  }
}

TEST(BisectTest, EqualRunsDifferNowhere) {
  const DrawnJob job(2, 5, 3);
  const EventStream left = job.with({});
  const EventStream right = job.with({});
  const Bisection found = bisect_runs(left.trace(), right.trace());
  EXPECT_FALSE(found.first);
  EXPECT_EQ(found.n_steps, 6);
  EXPECT_EQ(bisection_text(found, "both"),
            "equal: both (2 comparisons of digests, for 6 steps and 52 entries)\n");
}

TEST(BisectTest, TheMinorityOfTheRanksIsNamed) {
  const DrawnJob job(4, 6, 5);
  const EventStream stream = job.with({{0, 3, 2}, {0, 4, 0}, {2, 5, 1}});
  const Bisection found = bisect_ranks(stream.trace());
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->ranks, std::vector<Rank>{Rank{0}});
  EXPECT_EQ(divergence_line(found),
            "step 3 (sync 3), rank 0, param.step of `w2`; equal before it: everything before this "
            "step, and 4 entries of it, the last being param.step of `w1`");
}

/// Three ranks; these write to the weight between the first two steps.
Bisection after_writes_on(const std::vector<std::int32_t>& writers) {
  testing::DdpJob job(3);
  job.wrap();
  job.begin();
  job.train_step({1.0, 2.0, 3.0});
  for (const std::int32_t rank : writers) {
    job.weight(rank) = 9.0;
    job.found(rank);
  }
  job.train_step({1.0, 2.0, 3.0});
  return bisect_ranks(job.stream.trace());
}

TEST(BisectTest, TheRanksThatWroteAreNamedFewOrMany) {
  EXPECT_EQ(divergence_line(after_writes_on({0})),
            "step 1 (sync 1), rank 0, param.found of `weight`, which only rank 0 recorded here; "
            "equal before it: everything before this step");
  const Bisection most = after_writes_on({0, 2});
  ASSERT_TRUE(most.first);
  EXPECT_EQ(most.first->ranks, (std::vector<Rank>{Rank{0}, Rank{2}}));
  EXPECT_EQ(most.first->only_on, "ranks 0, 2");
  EXPECT_FALSE(after_writes_on({0, 1, 2}).first);
}

TEST(BisectTest, ARankThatStopsEarlierIsReported) {
  const DrawnJob job(2, 3, 1);
  EventStream stream = job.with({});
  ++stream.at(1).sync;
  stream.add(1, ForwardEvent{});
  const Bisection found = bisect_ranks(stream.trace());
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->event, "forward");
  EXPECT_EQ(found.first->only_on, "rank 1");
  EXPECT_EQ(found.first->at.sync, 3);
}

TEST(BisectTest, PerRankValuesAreNotADifference) {
  EventStream stream(2);
  const std::uint64_t digests[] = {1, 2};
  for (const std::int32_t rank : {0, 1}) {
    const std::uint64_t own[] = {static_cast<std::uint64_t>(10 + rank), 7};
    stream.at(rank) = {.attempt = 0, .wrapper = 0, .sync = 0, .micro = 0, .opt = 0, .epoch = 0};
    const LayoutId layout = stream.layout({"head", "w"});
    stream.add(rank, WrapEvent{.params = layout, .ignored = stream.layout({"head"}), .n_ranks = 2});
    stream.add(rank, GradEvent{.point = GradPoint::kInc, .layout = layout, .digests = own});
    stream.add(rank, GradEvent{.point = GradPoint::kPost, .layout = layout, .digests = digests});
    stream.add(rank,
               StateEvent{.kind = StateKind::kOptimizer,
                          .point = StatePoint::kStep,
                          .layout = rank == 0 ? layout : stream.layout({"w"}),
                          .digests = own});
    stream.add(rank,
               StateEvent{.kind = StateKind::kParam,
                          .point = StatePoint::kStep,
                          .layout = layout,
                          .digests = own});  // `head` differs and is ignored.
  }
  EXPECT_FALSE(bisect_ranks(stream.trace()).first);
}

TEST(FirstDivergenceTest, IsFoundWhenItIsAskedFor) {
  testing::DdpJob job(2);
  job.wrap();
  job.weights = {1.0, 2.0};
  job.train_step({1.0, 1.0});
  const MemoryTrace& trace = job.stream.trace();

  EXPECT_THAT(first_divergence_of(&trace)(), ::testing::HasSubstr("rank 1"));
  EXPECT_FALSE(first_divergence_of(nullptr));
}

}  // namespace
}  // namespace lockstep
