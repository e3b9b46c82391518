// Groups that compare before they run, against what PyTorch says in the same situations.
#include "lockstep/collectives/checked_group.h"

#include <gmock/gmock.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/collectives/monitored_barrier.h"

#include "tests/golden/golden_file.h"
#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::at;
using ::testing::HasSubstr;
using testing::ones;
using testing::run_groups;
using ::testing::StartsWith;

constexpr Duration kSecond{1'000'000'000};

using Call = std::function<void(ProcessGroup&)>;

// Each rank's error when `call` runs in a checked group.
std::vector<std::string> errors(std::int32_t n_ranks, Pairing pairing, const Call& call) {
  std::vector<std::string> texts(static_cast<std::size_t>(n_ranks));
  const auto run =
      run_groups({.n_ranks = n_ranks, .group = {.pairing = pairing}, .keep_going = true},
                 [&](ProcessGroup& group, RankHandle& rank) {
                   std::vector<std::int32_t> all;
                   for (std::int32_t r = 0; r < n_ranks; ++r) all.push_back(r);
                   const auto checked = make_checked_group(group.split(all), kSecond);
                   try {
                     call(*checked);
                   } catch (const CommError& error) {
                     EXPECT_NE(error.status(), CommStatus::kOk);
                     texts[to_index(rank.rank())] = error.what();
                   }
                 });
  EXPECT_FALSE(run.world.stuck.has_value()) << run.explanation;
  return texts;
}

std::vector<std::string> errors(const Call& call) { return errors(2, Pairing::kNcclLike, call); }

Memory floats(const Tensor& tensor) { return Memory::of(tensor); }

void run_case(const std::string& name, ProcessGroup& group) {
  const std::int32_t r = group.rank();
  if (name == "shape") {
    (void)group.all_reduce(floats(ones(group, 4 + r)));
  } else if (name == "operation") {
    const Tensor data = ones(group, 4);
    (void)(r == 0 ? group.all_reduce(floats(data)) : group.broadcast(floats(data), 0));
  } else if (name == "dtype") {
    const DType dtype = r == 0 ? DType::kF32 : DType::kF64;
    (void)group.all_reduce(floats(Tensor::full(group.runtime(), {4}, dtype, 1.0)));
  } else if (name == "third") {
    (void)group.all_reduce(floats(ones(group, r == 2 ? 6 : 4)));
  } else {
    const Tensor all = ones(group, 2 * (3 + r));
    (void)group.all_gather_into_tensor(floats(all), floats(ones(group, 3 + r)));
  }
}

TEST(CheckedGroupTest, SaysWhatPyTorchSays) {
  std::size_t n_seen = 0;
  for (const golden::Case& one : golden::read("detail.txt")) {
    const std::int32_t n_ranks = one.kind == "third" ? 3 : 2;
    const auto texts =
        errors(n_ranks, Pairing::kStrict, [&](ProcessGroup& group) { run_case(one.kind, group); });
    EXPECT_THAT(texts[static_cast<std::size_t>(one.integer(0))], StartsWith(one.values + "\n"));
    ++n_seen;
  }
  EXPECT_EQ(n_seen, 11U);
}

// -- what PyTorch does not compare; both ranks report the same line

void expect_only(const std::vector<std::string>& texts, const std::string& line) {
  for (const std::string& text : texts) {
    EXPECT_THAT(text, StartsWith(line));
    EXPECT_EQ(text.find("CollectiveFingerPrint"), std::string::npos);
  }
}

TEST(CheckedGroupTest, NamesTheReduceOperationAndBothCallSites) {
  const auto texts = errors([](ProcessGroup& group) {
    const bool first = group.rank() == 0;
    (void)group.all_reduce(floats(ones(group, 4)),
                           first ? ReduceOp::kSum : ReduceOp::kMax,
                           at(first ? "a.py" : "b.py", first ? 3 : 9));
  });
  expect_only(texts, "reduce differs at #0: rank 0 sum (a.py:3), rank 1 max (b.py:9)");
}

TEST(CheckedGroupTest, NamesTheRoot) {
  const auto texts = errors(
      [](ProcessGroup& group) { (void)group.broadcast(floats(ones(group, 4)), group.rank()); });
  expect_only(texts, "root differs at #0: rank 0 0 ");
}

TEST(CheckedGroupTest, NamesTheFactor) {
  const auto texts = errors([](ProcessGroup& group) {
    const OpOptions options{.premul = 0.5 + group.rank()};
    (void)group.all_reduce(floats(ones(group, 4)), ReduceOp::kPremulSum, options);
  });
  expect_only(texts, "premul differs at #0: rank 0 0.5, rank 1 1.5");
}

TEST(CheckedGroupTest, NamesTheSplits) {
  const auto texts = errors([](ProcessGroup& group) {
    const Tensor data = ones(group, 8);
    const std::int64_t cut = 3 + 2 * group.rank();
    const std::vector<Memory> parts = {floats(data).slice(0, cut),
                                       floats(data).slice(cut, 8 - cut)};
    (void)group.all_reduce_coalesced(parts);
  });
  expect_only(texts, "splits differs at #0");
}

TEST(CheckedGroupTest, NamesTheLayout) {
  const auto texts = errors([](ProcessGroup& group) {
    const OpOptions options{.layout = static_cast<std::uint64_t>(1 + group.rank())};
    (void)group.all_reduce(floats(ones(group, 4)), ReduceOp::kSum, options);
  });
  expect_only(texts, "layout differs at #0");
}

// A factor that is not used is not compared.
TEST(CheckedGroupTest, TheFactorCountsOnlyInAScaledSum) {
  const auto texts = errors([](ProcessGroup& group) {
    const OpOptions options{.premul = 0.5 + group.rank()};
    (void)group.all_reduce(floats(ones(group, 4)), ReduceOp::kSum, options).wait();
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

TEST(CheckedGroupTest, CountsItsOwnCollectives) {
  const auto texts = errors([](ProcessGroup& group) {
    const Tensor data = ones(group, 4);
    for (int i = 0; i < 3; ++i) (void)group.all_reduce(floats(data)).wait();
    (void)group.broadcast(floats(data), group.rank());
  });
  expect_only(texts, "root differs at #3");
}

// The rank that does not come is named, with what the others were about to do.
TEST(CheckedGroupTest, NamesWhoDidNotCome) {
  const auto texts = errors(3, Pairing::kStrict, [](ProcessGroup& group) {
    if (group.rank() != 1) (void)group.all_reduce(floats(ones(group, 4)));
  });
  EXPECT_THAT(texts[0],
              StartsWith("ProcessGroupWrapper: Monitored Barrier encountered error running "
                         "collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[4]"));
  EXPECT_THAT(texts[0], HasSubstr("[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 1000 ms"));
  EXPECT_EQ(texts[1], "");
  EXPECT_THAT(texts[2], HasSubstr("Rank 2 successfully reached monitoredBarrier"));
}

// Without the check the same mistake goes through and leaves garbage: the check is what notices.
TEST(CheckedGroupTest, AnUncheckedGroupOfTheSameKindNoticesNothing) {
  run_groups({.group = {.pairing = Pairing::kNcclLike}}, [](ProcessGroup& group, RankHandle&) {
    const ReduceOp op = group.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax;
    EXPECT_EQ(group.all_reduce(floats(ones(group, 4)), op).wait(), CommStatus::kOk);
  });
}

}  // namespace
}  // namespace lockstep::sim
