#include "lockstep/trace/cohort.h"

#include <cmath>
#include <gmock/gmock.h>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/trace/trace_digest.h"

#include "tests/support/event_stream.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using testing::EventStream;
using ::testing::IsEmpty;

/// What a rank recorded, as text that differs between any two events.
std::string words_of(const Event& event) {
  std::string words(name_of(kind_of(event.body)));
  words += " " + std::to_string(event.index) + " at " + std::to_string(event.at.sync) + " " +
           std::to_string(event.time.ns) + ":";
  if (const auto* decision = std::get_if<DecisionEvent>(&event.body)) {
    words += " " + std::to_string(decision->value);
  }
  if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
    for (const std::uint64_t digest : grad->digests) words += " " + std::to_string(digest);
    for (const Sketch& sketch : grad->sketches) words += " l1 " + std::to_string(sketch.l1);
    for (const std::int64_t n : grad->n_elems) words += " n " + std::to_string(n);
    for (const std::uint8_t bits : grad->undefined) words += " u " + std::to_string(bits);
  }
  return words;
}

class Listener final : public CohortSink {
 public:
  explicit Listener(std::int32_t n_ranks) : received_(static_cast<std::size_t>(n_ranks)) {}

  void on_event(const Event& event, const NameTable& /*names*/) override {
    ++n_alone_;
    receive(event);
  }

  void on_cohort(const CohortEvent& event, const NameTable& /*names*/) override {
    similarity_.push_back(event.similarity);
    EXPECT_EQ(event.equal(), event.own.empty() && event.rows == nullptr);
    for (std::int32_t rank = 0; rank < event.n_ranks(); ++rank) receive(event.of(rank));
  }

  EventKinds reads() const override { return kAllEventKinds & ~kinds_of<LogEvent>(); }

  const std::vector<std::vector<std::string>>& received() const { return received_; }

  const std::vector<Similarity>& similarity() const { return similarity_; }

  int n_alone() const { return n_alone_; }

 private:
  void receive(const Event& event) { received_[to_index(event.rank)].push_back(words_of(event)); }

  std::vector<std::vector<std::string>> received_;
  std::vector<Similarity> similarity_;
  int n_alone_ = 0;
};

Listener received_from(const EventStream& stream, const std::vector<std::uint32_t>& draws = {}) {
  Listener listener(stream.n_ranks());
  Cohort cohort;
  cohort.begin(stream.n_ranks(), listener, nullptr);
  stream.play(cohort, draws);
  cohort.flush(stream.trace().names());
  return listener;
}

std::vector<std::vector<std::string>> recorded_in(const EventStream& stream) {
  std::vector<std::vector<std::string>> said;
  for (std::int32_t rank = 0; rank < stream.n_ranks(); ++rank) {
    said.emplace_back();
    for (const Event& event : stream.trace().events(Rank{rank})) {
      said.back().push_back(words_of(event));
    }
  }
  return said;
}

GradEvent gradient(const std::vector<std::uint64_t>& digests, const LayoutId layout) {
  return {.point = GradPoint::kPre, .layout = layout, .digests = digests};
}

/// A gradient of one tensor for a rank to add.
struct Measured {
  std::uint64_t digest = 0;
  double l1 = 0.0;
  std::int64_t n_elems = 4;
  std::uint8_t undefined = 0;

  void add_to(EventStream& stream, std::int32_t rank, LayoutId layout) const {
    const Sketch sketch{.l1 = l1};
    stream.add(rank,
               GradEvent{.point = GradPoint::kPre,
                         .layout = layout,
                         .digests = std::span(&digest, 1),
                         .sketches = std::span(&sketch, 1),
                         .n_elems = std::span(&n_elems, 1),
                         .undefined = std::span(&undefined, 1)});
  }
};

void forward(EventStream& stream, std::int32_t rank, std::int32_t sync) {
  stream.at(rank).wrapper = 0;
  stream.at(rank).sync = sync;
  stream.add(rank, ForwardEvent{});
}

TEST(CohortTest, RanksInStepAreDeliveredOnceWithTheirSimilarity) {
  EventStream stream(3);
  const LayoutId layout = stream.layout({"w"});
  stream.add_all(ForwardEvent{});
  for (int rank = 0; rank < 3; ++rank) {
    stream.add(rank, gradient({static_cast<std::uint64_t>(rank / 2)}, layout));
  }
  for (int rank = 0; rank < 3; ++rank) stream.add(rank, DecisionEvent{.value = rank});
  stream.add_all(BackwardEvent{});

  const Listener listener = received_from(stream);

  EXPECT_THAT(
      listener.similarity(),
      ElementsAre(
          Similarity::kEqual, Similarity::kSameShape, Similarity::kSameKind, Similarity::kEqual));
  EXPECT_EQ(listener.n_alone(), 0);
  EXPECT_EQ(listener.received(), recorded_in(stream));
}

/// What a cohort says of gradients like these, one per rank.
Listener received_of(const std::vector<Measured>& gradients) {
  EventStream stream(static_cast<std::int32_t>(gradients.size()));
  const LayoutId layout = stream.layout({"w"});
  for (std::int32_t rank = 0; rank < stream.n_ranks(); ++rank) {
    gradients[static_cast<std::size_t>(rank)].add_to(stream, rank, layout);
  }
  Listener listener = received_from(stream);
  EXPECT_EQ(listener.received(), recorded_in(stream));
  EXPECT_EQ(listener.n_alone(), 0);
  return listener;
}

TEST(CohortTest, GradientsThatDifferInWhatWasMeasuredAreDeliveredAsEachRankRecordedThem) {
  const auto same_shape = ElementsAre(Similarity::kSameShape);
  EXPECT_THAT(received_of({{.digest = 1}, {.digest = 2}, {.digest = 1}}).similarity(), same_shape);
  EXPECT_THAT(received_of({{.digest = 1}, {.digest = 1}, {.digest = 2}}).similarity(), same_shape);
  EXPECT_THAT(received_of({{.l1 = 1.0}, {.l1 = 2.0}, {.l1 = 3.0}}).similarity(), same_shape);
}

TEST(CohortTest, AGradientOfAnotherShapeMayComeBeforeOrAfterOnesOfOtherValues) {
  const Measured first{.digest = 1, .l1 = 0.5};
  const Measured second{.digest = 2, .l1 = 0.75};
  const Measured longer{.digest = 3, .n_elems = 9};
  const Measured none{.undefined = 1};
  for (const Measured& other : {longer, none}) {
    for (const auto& ranks : std::vector<std::vector<Measured>>{{first, second, first, other},
                                                                {first, other, second, first},
                                                                {other, first, second, other},
                                                                {first, first, other, second}}) {
      EXPECT_THAT(received_of(ranks).similarity(), ElementsAre(Similarity::kSameKind));
    }
  }
}

// A place that is used again has room for what was there before.
TEST(CohortTest, GradientsWithSketchesMayFollowOnesWithout) {
  EventStream stream(3);
  const LayoutId layout = stream.layout({"w"});
  for (int step = 0; step < 40; ++step) {
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      const auto own = static_cast<std::uint64_t>(3 * step + rank);
      if (step < 20) {
        stream.add(rank, gradient({own}, layout));
      } else {
        Measured{.digest = own, .l1 = static_cast<double>(own)}.add_to(stream, rank, layout);
      }
    }
  }
  std::vector<std::uint32_t> in_turn(120);
  for (std::uint32_t i = 0; i < in_turn.size(); ++i) in_turn[i] = i;

  const Listener listener = received_from(stream, in_turn);

  EXPECT_EQ(listener.received(), recorded_in(stream));
  EXPECT_EQ(listener.n_alone(), 0);
}

// Ranks that run far ahead leave many places open at which most ranks have not come.
TEST(CohortTest, RowsAreMadeForTheRanksThatHaveComeAndAtMostAsManyMore) {
  const std::uint64_t digest = 1;
  const GradEvent grad{.digests = std::span(&digest, 1)};
  detail::GradRows rows;
  rows.start(1000, grad);
  rows.set(0, grad);
  EXPECT_EQ(rows.n_rows(), 2U);
  rows.set(3, grad);
  EXPECT_EQ(rows.n_rows(), 8U);
  rows.set(999, grad);
  EXPECT_EQ(rows.n_rows(), 1000U);
}

TEST(CohortTest, GradientsOfManyRanksAreDeliveredAsEachRankRecordedThem) {
  std::vector<Measured> gradients(200);
  for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
    gradients[rank] = {.digest = rank / 150, .l1 = static_cast<double>(rank % 7)};
  }
  EXPECT_THAT(received_of(gradients).similarity(), ElementsAre(Similarity::kSameShape));
}

/// Rank `odd` records one more event in each step.
EventStream with_something_more(std::int32_t odd) {
  EventStream stream(3);
  for (std::int32_t sync = 0; sync < 6; ++sync) {
    for (int rank = 0; rank < 3; ++rank) {
      forward(stream, rank, sync);
      if (rank == odd) stream.add(rank, PhaseEvent{.kind = PhaseKind::kSave});
      stream.add(rank, BackwardEvent{});
    }
  }
  return stream;
}

TEST(CohortTest, WhatOneRankAloneRecordsLeavesTheOthersInStep) {
  for (const std::int32_t odd : {0, 1, 2}) {
    const EventStream stream = with_something_more(odd);
    std::vector<std::uint32_t> turns;
    for (std::uint32_t step = 0; step < 6; ++step) {
      for (const std::uint32_t rank : {0U, 0U, 0U, 1U, 1U, 1U, 2U, 2U, 2U}) turns.push_back(rank);
    }

    const Listener listener = received_from(stream, turns);

    EXPECT_EQ(listener.received(), recorded_in(stream)) << odd;
    EXPECT_EQ(listener.n_alone(), 6) << odd;
    EXPECT_EQ(listener.similarity().size(), 12U) << odd;
  }
}

TEST(CohortTest, ARankOutOfStepIsDeliveredAloneUntilACommonForward) {
  constexpr int kMany = 400;  // More than are set aside at one place.
  EventStream stream(2);
  for (int rank = 0; rank < 2; ++rank) forward(stream, rank, 0);
  for (int i = 0; i < kMany; ++i) stream.add(1, DecisionEvent{.value = i});
  for (std::int32_t sync = 1; sync < 6; ++sync) {
    for (int rank = 0; rank < 2; ++rank) forward(stream, rank, sync);
  }
  std::vector<std::uint32_t> order = {0, 1, 0};
  order.resize(kMany, 1);

  const Listener listener = received_from(stream, order);

  EXPECT_EQ(listener.received(), recorded_in(stream));
  EXPECT_GE(listener.n_alone(), kMany);
  EXPECT_GT(listener.similarity().size(), 2U);
  EXPECT_LT(listener.similarity().size(), 6U);
}

TEST(CohortTest, WhatWaitsForRanksThatNeverComeIsDeliveredAtTheEndAndLostWithoutIt) {
  EventStream stream(2);
  stream.add_all(ForwardEvent{});
  stream.add(0, BackwardEvent{});
  Listener flushed = received_from(stream);
  Listener forgotten(2);
  Cohort cohort;
  cohort.begin(2, forgotten, nullptr);
  stream.play(cohort);

  EXPECT_EQ(flushed.received(), recorded_in(stream));
  EXPECT_NE(forgotten.received(), recorded_in(stream));
}

// The bound that the class promises for its memory.
TEST(CohortTest, AsManyEventsWaitForARankAsThereIsMemoryForAndNoMore) {
  for (const std::size_t n : {Cohort::kMaxWaiting, Cohort::kMaxWaiting + 1}) {
    EventStream stream(2);
    for (std::size_t i = 0; i < n; ++i) stream.add(0, DecisionEvent{});
    Listener listener(2);
    Cohort cohort;
    cohort.begin(2, listener, nullptr);
    stream.play(cohort);
    EXPECT_EQ(listener.received()[0].size(), n > Cohort::kMaxWaiting ? n : 0U);
  }
}

TEST(CohortTest, ARestartAndASingleRankAreDeliveredEventByEvent) {
  EventStream restarted(2);
  restarted.add_all(ForwardEvent{});
  for (int rank = 0; rank < 2; ++rank) restarted.at(rank).attempt = 1;
  restarted.add_all(ForwardEvent{});
  EventStream single(1);
  single.add_all(ForwardEvent{});

  EXPECT_EQ(received_from(restarted, {0, 1, 0, 1}).n_alone(), 2);
  EXPECT_EQ(received_from(single).n_alone(), 1);
}

TEST(CohortTest, UnreadKindsDelayNoRank) {
  EventStream stream(2);
  stream.add(0, LogEvent{});
  stream.add_all(ForwardEvent{});

  const Listener listener = received_from(stream);

  EXPECT_THAT(listener.similarity(), ElementsAre(Similarity::kEqual));
  EXPECT_EQ(listener.n_alone(), 1);
}

/// Streams of ranks that are mostly in step.
EventStream any_stream(std::mt19937& draw) {
  const auto n_ranks = static_cast<std::int32_t>(2 + draw() % 4);
  EventStream stream(n_ranks);
  const LayoutId layout = stream.layout({"v", "w"});
  for (std::int32_t sync = 0; sync < 12; ++sync) {
    const auto odd = draw() % 24;  // The place of something unusual.
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      if (odd == 0 && rank == 1) continue;
      forward(stream, rank, sync);
      const std::uint64_t own = odd == 1 ? draw() : 7;
      stream.add(rank, gradient({own, static_cast<std::uint64_t>(rank)}, layout));
      if (odd == 2 && rank == 0) stream.add(rank, DecisionEvent{.value = sync});
      if (odd == 3 && rank == 0) stream.at(rank).opt += 1;
      stream.add(rank, BackwardEvent{.reduced = odd != 4 || rank > 0});
    }
  }
  return stream;
}

/// Offers a cohort bodies, as recorders do, and an event only of those that do not join.
class Joining final : public EventSink {
 public:
  explicit Joining(Cohort& cohort) : cohort_(&cohort) {}

  void on_event(const Event& event, const NameTable& names) override {
    const bool joined = cohort_->joins(stamp_of(event), detail::BodyRef::of(event.body), names);
    n_joined_ += joined ? 1 : 0;
    if (!joined) cohort_->on_event(event, names);
  }

  int n_joined() const { return n_joined_; }

 private:
  Cohort* cohort_;
  int n_joined_ = 0;
};

TEST(CohortTest, EachRankIsDeliveredInItsOwnOrderAndTheDigestIsThatOfTheStream) {
  std::mt19937 draw(20);
  Cohort cohort;  // One for all of them: worlds of other sizes follow one another.
  Joining joining(cohort);
  int n_together = 0;
  for (int i = 0; i < 300; ++i) {
    const EventStream stream = any_stream(draw);
    std::vector<std::uint32_t> order(draw() % 200);
    for (std::uint32_t& rank : order) rank = static_cast<std::uint32_t>(draw());
    TraceDigest plain;
    stream.play(plain, order);

    Listener listener(stream.n_ranks());
    TraceDigest digest;
    cohort.begin(stream.n_ranks(), listener, &digest);
    stream.play(i % 2 == 0 ? static_cast<EventSink&>(cohort) : joining, order);
    cohort.flush(stream.trace().names());

    ASSERT_EQ(listener.received(), recorded_in(stream)) << i;
    ASSERT_EQ(digest.trace(), plain.trace()) << i;
    ASSERT_EQ(digest.result(), plain.result()) << i;
    ASSERT_EQ(digest.n_events(), plain.n_events()) << i;
    n_together += static_cast<int>(listener.similarity().size());
  }
  EXPECT_GT(n_together, 1000);
  EXPECT_GT(joining.n_joined(), 1000);
}

TEST(CohortTest, ARestartOrARankThatIsFirstOrOutOfStepDoesNotJoin) {
  Cohort cohort;
  Listener listener(2);
  cohort.begin(2, listener, nullptr);
  const NameTable names;
  const ForwardEvent forward;
  const auto body = detail::BodyRef::of(forward);
  const BackwardEvent backward;
  EXPECT_FALSE(cohort.joins({.rank = Rank{0}}, body, names)) << "nothing to join";
  cohort.on_event({Rank{0}, 0, VirtualTime{}, Position{}, forward}, names);
  EXPECT_FALSE(cohort.joins({.rank = Rank{1}}, detail::BodyRef::of(backward), names))
      << "of another kind";
  EXPECT_FALSE(cohort.joins({.rank = Rank{1}, .at = {.sync = 1}}, body, names)) << "elsewhere";
  EXPECT_FALSE(cohort.joins({.rank = Rank{1}, .at = {.attempt = 1}}, body, names));
  EXPECT_FALSE(cohort.joins({.rank = Rank{2}}, body, names)) << "no such rank";
  EXPECT_TRUE(listener.similarity().empty());
  EXPECT_TRUE(cohort.joins({.rank = Rank{1}}, body, names));
  EXPECT_THAT(listener.similarity(), ElementsAre(Similarity::kEqual));
}

TEST(SimilarityTest, ComparesBitsAndTheTextsOfSites) {
  const std::string here = "train.py";
  const std::string copy = "train.py";
  CollectiveEvent call{.seq = 3};
  call.signature.site = {here.c_str(), 4, ""};
  CollectiveEvent same = call;
  same.signature.site.file = copy.c_str();
  CollectiveEvent elsewhere = call;
  elsewhere.signature.site.line = 5;
  CollectiveEvent completed = call;
  completed.phase = CollectivePhase::kCompleted;

  EXPECT_EQ(similarity_of(call, same), Similarity::kEqual);
  EXPECT_EQ(similarity_of(call, elsewhere), Similarity::kSameKind);
  EXPECT_EQ(similarity_of(call, completed), Similarity::kUnrelated);
  EXPECT_EQ(similarity_of(StepEvent{.lr = 0.0}, StepEvent{.lr = -0.0}), Similarity::kSameKind);
  EXPECT_EQ(similarity_of(StepEvent{.lr = NAN}, StepEvent{.lr = NAN}), Similarity::kEqual);
  EXPECT_EQ(similarity_of(StepEvent{}, ForwardEvent{}), Similarity::kUnrelated);
}

TEST(SimilarityTest, CallsOfOneLineInTwoScopesAreNotEqual) {
  CollectiveEvent forward;
  forward.signature.site = {"train.py", 7, "ddp.init"};
  CollectiveEvent backward = forward;
  backward.signature.site.scope = "ddp.buffers";

  EXPECT_EQ(similarity_of(forward, backward), Similarity::kSameKind);
}

TEST(SimilarityTest, LossesOfOneShapeMayDifferInTheirValueOnly) {
  const LossEvent loss{.value = 1.0, .denominator = 4.0, .n_terms = 4};
  LossEvent other = loss;
  other.value = 2.0;
  EXPECT_EQ(similarity_of(loss, loss), Similarity::kEqual);
  EXPECT_EQ(similarity_of(loss, other), Similarity::kSameShape);
  other.denominator = 8.0;
  EXPECT_EQ(similarity_of(loss, other), Similarity::kSameKind);
}

TEST(SimilarityTest, ListsOfOneNumberAreNotComparedAndOthersAre) {
  const std::uint64_t one[] = {1};
  const std::uint64_t two[] = {2};
  const GradEvent left{.digests = one, .number = 3};
  GradEvent right{.digests = two, .number = 3};
  EXPECT_EQ(similarity_of(left, right), Similarity::kEqual);
  right.number = 4;
  EXPECT_EQ(similarity_of(left, right), Similarity::kSameShape);
  right.digests = one;
  EXPECT_EQ(similarity_of(left, right), Similarity::kEqual);
  const GradEvent without{.digests = one};
  EXPECT_EQ(similarity_of(without, GradEvent{.digests = two}), Similarity::kSameShape);
  right.point = GradPoint::kUsed;
  right.number = 3;
  EXPECT_EQ(similarity_of(left, right), Similarity::kUnrelated) << "two points of one step";
}

TEST(SimilarityTest, OnlyWhatWasMeasuredOfTensorsMayDifferInEventsOfOneShape) {
  const std::uint64_t one[] = {1};
  const std::uint64_t two[] = {2};
  const Sketch sketches[] = {Sketch{.l1 = 1.0}};
  const std::int64_t larger[] = {9};
  const GradEvent grad{.digests = one};
  GradEvent measured = grad;
  measured.digests = two;
  GradEvent sketched = grad;
  sketched.sketches = sketches;
  GradEvent wider = grad;
  wider.n_elems = larger;

  EXPECT_EQ(similarity_of(grad, measured), Similarity::kSameShape);
  EXPECT_EQ(similarity_of(grad, grad), Similarity::kEqual);
  EXPECT_EQ(similarity_of(grad, sketched), Similarity::kSameKind);
  EXPECT_EQ(similarity_of(grad, wider), Similarity::kSameKind);
  EXPECT_EQ(similarity_of(grad, GradEvent{.point = GradPoint::kUsed, .digests = one}),
            Similarity::kUnrelated);
  EXPECT_EQ(similarity_of(StateEvent{}, StateEvent{.kind = StateKind::kBuffer}),
            Similarity::kUnrelated);
}

}  // namespace
}  // namespace lockstep
