#include "lockstep/base/intrusive.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// Counts how many of its kind were destroyed.
class Canary final : public Counted {
 public:
  explicit Canary(int& n_destroyed) : n_destroyed_(&n_destroyed) {}

 private:
  ~Canary() override { ++*n_destroyed_; }

  int* n_destroyed_;
};

TEST(IntrusiveTest, TheLastHandleDestroys) {
  int n_destroyed = 0;
  {
    const Ref<Canary> first(new Canary(n_destroyed));
    const Ref<Canary> second = first;  // NOLINT(performance-unnecessary-copy-initialization)
    EXPECT_EQ(first->use_count(), 2);
    EXPECT_TRUE(first == second);
  }

  EXPECT_EQ(n_destroyed, 1);
}

TEST(IntrusiveTest, MovingKeepsTheCount) {
  int n_destroyed = 0;
  Ref<Canary> first(new Canary(n_destroyed));

  const Ref<Canary> second = std::move(first);

  EXPECT_EQ(second->use_count(), 1);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): a moved-from handle is empty.
}

TEST(IntrusiveTest, AssignmentReleasesWhatWasHeld) {
  int n_first = 0;
  int n_second = 0;
  Ref<Canary> handle(new Canary(n_first));
  const Ref<Canary> other(new Canary(n_second));

  handle = other;
  EXPECT_EQ(n_first, 1);
  EXPECT_EQ(other->use_count(), 2);
  handle = Ref<Canary>();
  EXPECT_EQ(n_second, 0);
}

TEST(IntrusiveTest, SelfAssignmentKeepsTheObject) {
  int n_destroyed = 0;
  Ref<Canary> handle(new Canary(n_destroyed));
  const Ref<Canary>& same = handle;

  handle = same;

  EXPECT_EQ(n_destroyed, 0);
  EXPECT_EQ(handle->use_count(), 1);
}

TEST(IntrusiveTest, AnEmptyHandleIsHarmless) {
  const Ref<Canary> empty;
  const Ref<Canary> copy = empty;  // NOLINT(performance-unnecessary-copy-initialization)

  EXPECT_FALSE(copy);
  EXPECT_EQ(copy.get(), nullptr);
}

}  // namespace
}  // namespace lockstep
