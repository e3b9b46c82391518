#include <string>

#include <gtest/gtest.h>

#include "lockstep/trace/event.h"
#include "lockstep/trace/event_enums.h"

namespace lockstep {
namespace {

TEST(EventWordsTest, ValuesOfGradientsAreNamedAfterTheGradientsPoint) {
  EXPECT_EQ(value_point(GradPoint::kBase), ValuePoint::kGradBase);
  EXPECT_EQ(value_point(GradPoint::kInc), ValuePoint::kGradInc);
  EXPECT_EQ(value_point(GradPoint::kPre), ValuePoint::kGradPre);
  EXPECT_EQ(value_point(GradPoint::kPost), ValuePoint::kGradPost);
  EXPECT_EQ(value_point(GradPoint::kUsed), ValuePoint::kGradUsed);
  EXPECT_EQ(value_point(GradPoint::kRedo), ValuePoint::kGradRedo);
  for (const GradPoint point : every<GradPoint>()) {
    EXPECT_EQ(name_of(value_point(point)), "grad." + std::string(name_of(point)));
  }
}

TEST(EventWordsTest, ValuesOfStateAreNamedAsTheStatesPoint) {
  for (const StatePoint point : every<StatePoint>()) {
    EXPECT_EQ(name_of(value_point(point)), name_of(point));
  }
  EXPECT_EQ(every<ValuePoint>().size(), every<GradPoint>().size() + every<StatePoint>().size());
}

TEST(EventWordsTest, AStateEventIsOfTheKindThatItsStateHas) {
  for (const StateKind kind : every<StateKind>()) {
    EXPECT_EQ(name_of(kind_of(StateEvent{.kind = kind})), name_of(kind));
  }
}

TEST(EventWordsTest, OnlyTheTrainSplitIsTrainedOn) {
  EXPECT_TRUE(is_train_split(kTrainSplit));
  EXPECT_FALSE(is_train_split("train/2"));
  EXPECT_FALSE(is_train_split(""));
}

}  // namespace
}  // namespace lockstep
