#include "lockstep/harness/rounding/traced_reductions.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// Records single events of one wrapper over two tensors, `a` and `b`.
class TwoTensors {
 public:
  void wrap(std::int32_t rank, std::int32_t group, const std::vector<std::int32_t>& members) {
    add(rank, 0, GroupEvent{.group = group, .members = members});
    add(rank,
        0,
        WrapEvent{.params = layout_,
                  .group = group,
                  .n_ranks = static_cast<std::int32_t>(members.size())});
  }

  /// Bit i of `undefined`: tensor i has no gradient.
  void gradient(std::int32_t rank, std::int32_t sync, GradPoint point, std::uint8_t undefined = 0) {
    const std::vector<std::uint64_t> digests = {1, 2};
    const std::vector<std::int64_t> n_elems = {1, 1};
    const std::vector<std::uint8_t> bits = {undefined};
    add(rank,
        sync,
        GradEvent{.point = point,
                  .layout = layout_,
                  .digests = digests,
                  .n_elems = n_elems,
                  .undefined = bits});
  }

  void value(std::int32_t rank, std::int32_t sync, GradPoint point, NameId tensor, double value) {
    const std::vector<double> values = {value};
    add(rank, sync, ValueEvent{.tensor = tensor, .point = value_point(point), .values = values});
  }

  NameId a() const { return a_; }

  const MemoryTrace& trace() const { return trace_; }

 private:
  void add(std::int32_t rank, std::int32_t sync, const EventBody& body) {
    const Position at{.wrapper = 0, .sync = sync};
    trace_.on_event({static_cast<Rank>(rank), index_++, {}, at, body}, *names_);
  }

  std::shared_ptr<NameTable> names_ = std::make_shared<NameTable>();
  NameId a_ = names_->intern("a");
  LayoutId layout_ = names_->intern_layout(std::vector<NameId>{a_, names_->intern("b")});
  MemoryTrace trace_{names_};
  std::uint64_t index_ = 0;
};

TEST(TracedReductionsTest, GroupsReduceByThemselves) {
  TwoTensors events;
  for (const std::int32_t rank : {0, 1, 2, 3}) {
    const std::int32_t first = rank / 2 * 2;
    events.wrap(rank, 5, {first, first + 1});
    events.gradient(rank, 0, GradPoint::kPre);
    events.gradient(rank, 0, GradPoint::kPost);
  }
  const std::vector<TracedReduction> found = reductions_of(events.trace());
  ASSERT_EQ(found.size(), 4U);  // Two tensors in two groups.
  EXPECT_EQ(found[0].tensor, "a");
  EXPECT_EQ(found[0].members, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(found[1].tensor, "a");
  EXPECT_EQ(found[1].members, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(found[1].parts[0].rank, Rank{2});
  EXPECT_TRUE(found[1].is_whole());
}

TEST(TracedReductionsTest, ARankWithoutAGradientGivesNothing) {
  TwoTensors events;
  for (const std::int32_t rank : {0, 1}) {
    events.wrap(rank, 0, {0, 1});
    events.gradient(rank, 0, GradPoint::kPre, rank == 1 ? 1 : 0);
    events.gradient(rank, 0, GradPoint::kPost);
  }
  const std::vector<TracedReduction> found = reductions_of(events.trace());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].parts[0].given.has_value());
  EXPECT_FALSE(found[0].parts[1].given.has_value());
  EXPECT_TRUE(found[1].parts[1].given.has_value());
}

// The simulator records values before the gradient's event, real processes after it.
TEST(TracedReductionsTest, ValuesBelongToTheirReductionWhicheverCameFirst) {
  TwoTensors events;
  events.wrap(0, 0, {0});
  events.value(0, 0, GradPoint::kPre, events.a(), 7.0);
  events.gradient(0, 0, GradPoint::kPre);
  events.gradient(0, 0, GradPoint::kPost);
  events.value(0, 0, GradPoint::kPost, events.a(), 8.0);
  events.gradient(0, 1, GradPoint::kPre);
  events.value(0, 1, GradPoint::kPre, events.a(), 9.0);
  events.gradient(0, 1, GradPoint::kPost);
  const std::vector<TracedReduction> found = reductions_of(events.trace());
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ((*found[0].parts[0].given->values)[0], 7.0);
  EXPECT_EQ((*found[0].parts[0].got.values)[0], 8.0);
  EXPECT_EQ((*found[2].parts[0].given->values)[0], 9.0);
  EXPECT_FALSE(found[2].parts[0].got.values.has_value());
  EXPECT_FALSE(found[1].parts[0].given->values.has_value());
}

// Two backwards before one step: a second reduction of the same place.
TEST(TracedReductionsTest, ASecondReductionInAStepIsAnother) {
  TwoTensors events;
  events.wrap(0, 0, {0});
  for (int i = 0; i < 2; ++i) {
    events.gradient(0, 0, GradPoint::kPre);
    events.gradient(0, 0, GradPoint::kPost);
  }
  const std::vector<TracedReduction> found = reductions_of(events.trace());
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].occurrence, 0);
  EXPECT_EQ(found[2].occurrence, 1);
  EXPECT_TRUE(comes_before(found[0], found[2]));
  EXPECT_FALSE(comes_before(found[0], found[0]));
}

}  // namespace
}  // namespace lockstep
