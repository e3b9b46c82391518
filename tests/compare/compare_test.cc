// What counts as equal between two runs, and what is named when they are not.
#include "lockstep/compare/compare.h"

#include <array>

#include <gtest/gtest.h>

#include "lockstep/compare/first_difference.h"

namespace lockstep {
namespace {

/// A trace that is written by hand, one event after the other.
class Script {
 public:
  void add(std::int32_t rank, const EventBody& body, std::int32_t step = 0, std::int64_t time = 0) {
    const Event event{Rank{rank}, next_++, {time}, {.wrapper = 0, .sync = step, .opt = step}, body};
    trace_.on_event(event, *names_);
  }

  void grad(std::int32_t rank, std::uint64_t of_a, std::uint64_t of_b, std::int32_t step = 0) {
    const std::array<NameId, 2> tensors = {names_->intern("a"), names_->intern("b")};
    const std::array<std::uint64_t, 2> digests = {of_a, of_b};
    add(rank,
        GradEvent{.point = GradPoint::kPost,
                  .layout = names_->intern_layout(tensors),
                  .digests = digests},
        step);
  }

  void completed(std::int32_t rank, std::int64_t seq, std::uint64_t digest = 0) {
    add(rank, CollectiveEvent{.phase = CollectivePhase::kCompleted, .seq = seq, .digest = digest});
  }

  LayoutId layout(const std::vector<NameId>& names) { return names_->intern_layout(names); }

  NameId name(const std::string& text) { return names_->intern(text); }

  const MemoryTrace& trace() const { return trace_; }

 private:
  std::shared_ptr<NameTable> names_ = std::make_shared<NameTable>();
  MemoryTrace trace_{names_};
  std::uint64_t next_ = 0;
};

TEST(CompareTest, FilesThatTheProgramOpensDoNotCountAndSnapshotsDo) {
  for (const SnapshotAction action :
       {SnapshotAction::kWrite, SnapshotAction::kOpen, SnapshotAction::kPart}) {
    Script left;
    Script right;
    left.add(0, SnapshotEvent{.action = action, .detail = left.name("a")});
    right.add(0, SnapshotEvent{.action = action, .detail = right.name("b")});
    const Comparison comparison = compare_runs(left.trace(), right.trace());
    EXPECT_EQ(comparison.first.has_value(), action == SnapshotAction::kPart);
  }
}

TEST(CompareTest, TimesLogsAndTheOrderOfCompletionsDoNotCount) {
  Script left;
  left.completed(0, 0);
  left.completed(0, 1);
  left.add(0, ForwardEvent{}, 0, 5);
  Script right;
  right.add(0, LogEvent{});
  right.completed(0, 1);
  right.add(0, ForwardEvent{}, 0, 900);
  right.completed(0, 0);
  const Comparison comparison = compare_runs(left.trace(), right.trace());
  EXPECT_FALSE(comparison.first.has_value());
  EXPECT_EQ(comparison.n_events, 3);
}

TEST(FirstDifferenceTest, TimesCountOnlyWhereTheyAreAskedFor) {
  Script left;
  left.add(0, ForwardEvent{}, 0, 5);
  left.completed(0, 0);
  left.grad(0, 1, 2);
  Script right;
  right.add(0, ForwardEvent{}, 0, 900);
  right.grad(0, 1, 2);
  right.completed(0, 0);
  EXPECT_FALSE(cli::first_difference(left.trace(), right.trace(), cli::Timing::kIgnored));
  EXPECT_TRUE(cli::first_difference(left.trace(), right.trace(), cli::Timing::kCompared));
}

/// A call, a touch and an exchange of a script, from `line` on.
Script script_at(const char* file, std::int32_t line, std::int64_t count = 1) {
  Script script;
  CollectiveEvent call{};
  call.signature.site = {file, line, ""};
  call.signature.count = count;
  script.add(0, call);
  const NameId place = script.name(file + (":" + std::to_string(line)));
  script.add(0, TouchEvent{.site = {file, line + 1, ""}, .posted_at = place});
  script.add(0, ExchangeEvent{.called_at = place});
  return script;
}

TEST(FirstDifferenceTest, WhereInTheProgramSomethingHappenedCountsOnlyWithTimes) {
  const Script before = script_at("train.py", 15);
  const Script after = script_at("copy.py", 20);
  EXPECT_FALSE(cli::first_difference(before.trace(), after.trace(), cli::Timing::kIgnored));
  EXPECT_FALSE(compare_runs(before.trace(), after.trace()).first.has_value());
  EXPECT_TRUE(cli::first_difference(before.trace(), after.trace(), cli::Timing::kCompared));
  const Script other = script_at("copy.py", 20, 2);
  EXPECT_TRUE(cli::first_difference(before.trace(), other.trace(), cli::Timing::kIgnored));
}

/// An optimizer's options, in this order.
Script script_of(const std::vector<std::string>& options, const std::vector<double>& values) {
  Script script;
  std::vector<NameId> names;
  for (const std::string& option : options) names.push_back(script.name(option));
  script.add(0, OptimizerEvent{.options = script.layout(names), .values = values});
  return script;
}

TEST(FirstDifferenceTest, TheFirstOptionThatDiffersIsNamedWithItsValues) {
  const Script before = script_of({"momentum", "lr", "eps"}, {0.9, 0.001, 1e-8});
  const Script after = script_of({"momentum", "lr", "eps"}, {0.9, 0.002, 1e-6});
  const auto found = cli::first_difference(before.trace(), after.trace(), cli::Timing::kIgnored);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(
      found->text.starts_with("sync 0, event 0 (options), rank 0: `lr` is 0.001 against 0.002\n"))
      << found->text;
  const Script other = script_of({"momentum", "dampening"}, {0.9, 0.5});
  const auto unnamed = cli::first_difference(before.trace(), other.trace(), cli::Timing::kIgnored);
  ASSERT_TRUE(unnamed.has_value());
  EXPECT_TRUE(unnamed->text.starts_with("sync 0, event 0 (options), rank 0\n")) << unnamed->text;
}

TEST(FirstDifferenceTest, ADigestCountsWhateverTheTimes) {
  Script left;
  left.grad(0, 1, 2);
  Script right;
  right.completed(0, 0);
  right.grad(0, 1, 3);
  const auto found = cli::first_difference(left.trace(), right.trace(), cli::Timing::kIgnored);
  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->text.find("tensor `b`"), std::string::npos) << found->text;
}

TEST(CompareTest, ADigestThatDiffersIsNamedWithItsTensorStepAndRank) {
  Script left;
  Script right;
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    for (std::int32_t step = 0; step < 3; ++step) {
      left.grad(rank, 1, 2, step);
      right.grad(rank, rank == 2 && step == 1 ? 9U : 1U, rank == 1 && step == 2 ? 9U : 2U, step);
    }
  }
  const Comparison comparison = compare_runs(left.trace(), right.trace());
  ASSERT_TRUE(comparison.first.has_value());
  EXPECT_EQ(comparison.first->rank, Rank{2});
  EXPECT_EQ(comparison.first->tensor, "a");
  const std::string text = render(*comparison.first, "x", "y");
  EXPECT_EQ(text.substr(0, text.find('\n')), "sync 1, step 1, grad post, tensor `a`, rank 2");
}

TEST(CompareTest, ARunThatStopsEarlierAndAnotherCompletionAreDifferences) {
  Script left;
  left.add(0, ForwardEvent{});
  left.completed(0, 0, 7);
  Script shorter;
  shorter.completed(0, 0, 7);
  const Comparison missing = compare_runs(left.trace(), shorter.trace());
  ASSERT_TRUE(missing.first.has_value());
  EXPECT_EQ(missing.first->event, "forward");
  EXPECT_EQ(missing.first->right, "");
  Script other;
  other.add(0, ForwardEvent{});
  other.completed(0, 0, 8);
  const Comparison digests = compare_runs(left.trace(), other.trace());
  ASSERT_TRUE(digests.first.has_value());
  EXPECT_EQ(digests.first->event, "collective completed");
}

TEST(CompareTest, ARankOnOneSideAloneIsADifference) {
  Script left;
  left.add(0, ForwardEvent{});
  Script right;
  right.add(0, ForwardEvent{});
  right.add(1, ForwardEvent{});
  const Comparison comparison = compare_runs(left.trace(), right.trace());
  ASSERT_TRUE(comparison.first.has_value());
  EXPECT_EQ(comparison.first->rank, Rank{1});
}

}  // namespace
}  // namespace lockstep
