#include <gtest/gtest.h>

#include "lockstep/sim/fault/fault.h"

namespace lockstep::sim {
namespace {

Event event_of(const EventBody& body) {
  Event event;
  event.body = body;
  return event;
}

Event call_of(CollectiveOp op) {
  CollectiveEvent call;
  call.signature.op = op;
  return event_of(call);
}

TEST(OccasionTest, EveryKindOfEventAndEveryOperationHasItsNameBack) {
  for (const EventKind kind : every<EventKind>()) {
    const std::optional<Occasion> named = Occasion::named(name_of(kind));
    ASSERT_TRUE(named.has_value()) << name_of(kind);
    EXPECT_EQ(*named, Occasion(kind));
    EXPECT_EQ(named->name(), name_of(kind));
  }
  for (const CollectiveOp op : every<CollectiveOp>()) {
    EXPECT_EQ(Occasion::named(name_of(op)), Occasion(op)) << name_of(op);
  }
  EXPECT_FALSE(Occasion::named("forwards").has_value());
}

TEST(OccasionTest, AKindIncludesItsEventsAndNoOthers) {
  EXPECT_TRUE(Occasion(EventKind::kStep).includes(event_of(StepEvent{})));
  EXPECT_FALSE(Occasion(EventKind::kStep).includes(event_of(ForwardEvent{})));
  EXPECT_TRUE(
      Occasion(EventKind::kBuffer).includes(event_of(StateEvent{.kind = StateKind::kBuffer})));
  EXPECT_FALSE(
      Occasion(EventKind::kBuffer).includes(event_of(StateEvent{.kind = StateKind::kParam})));
}

TEST(OccasionTest, AnOperationIncludesItsOwnCallsAndTheKindAllOfThem) {
  EXPECT_TRUE(Occasion(CollectiveOp::kReduce).includes(call_of(CollectiveOp::kReduce)));
  EXPECT_FALSE(Occasion(CollectiveOp::kReduce).includes(call_of(CollectiveOp::kAllReduce)));
  EXPECT_FALSE(Occasion(CollectiveOp::kReduce).includes(event_of(StepEvent{})));
  EXPECT_TRUE(Occasion(EventKind::kCollective).includes(call_of(CollectiveOp::kSend)));
}

TEST(OccasionTest, OnlyCallsOfWholeGroupsAreOfGroups) {
  EXPECT_TRUE(Occasion(EventKind::kCollective).is_of_groups());
  EXPECT_TRUE(Occasion(CollectiveOp::kBarrier).is_of_groups());
  EXPECT_FALSE(Occasion(CollectiveOp::kSend).is_of_groups());
  EXPECT_FALSE(Occasion(CollectiveOp::kRecv).is_of_groups());
  EXPECT_FALSE(Occasion(EventKind::kForward).is_of_groups());
}

}  // namespace
}  // namespace lockstep::sim
