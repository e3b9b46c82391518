#include "lockstep/base/check.h"

#include "tests/conformance/process_group_suite.h"
#include "tests/conformance/values.h"

namespace lockstep::conformance {

namespace {

void works_may_be_waited_for_in_any_order(ProcessGroup& group) {
  const double n = group.size();
  std::vector<Tensor> data;
  std::vector<Work> works;
  for (int i = 0; i < 6; ++i) {
    data.push_back(filled(group, DType::kF32, 8, [&](std::int64_t) { return group.rank() + i; }));
    works.push_back(group.all_reduce(Memory::of(data.back())));
  }
  // Another order on every rank.
  for (std::size_t i = 0; i < works.size(); ++i) {
    const std::size_t k = (5 * i + static_cast<std::size_t>(group.rank())) % works.size();
    ASSERT_EQ(works[k].wait(), CommStatus::kOk);
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(data[i].at(0), n * (n - 1) / 2 + n * static_cast<double>(i));
  }
}

void waiting_twice_answers_the_same(ProcessGroup& group) {
  const Work work = group.barrier();
  EXPECT_EQ(work.wait(), CommStatus::kOk);
  EXPECT_EQ(work.wait(), CommStatus::kOk);
  EXPECT_TRUE(work.is_completed());
  EXPECT_NO_THROW(work.wait_or_throw());
}

void polling_ends_when_the_work_is_done(ProcessGroup& group) {
  const Tensor data = filled(group, DType::kF32, 4, [](std::int64_t) { return 1; });
  const Work work = group.all_reduce(Memory::of(data));
  while (!work.is_completed()) {
  }
  EXPECT_EQ(work.wait(), CommStatus::kOk);
  EXPECT_EQ(data.at(3), group.size());
}

// Rank 0 forgets its handle: the others still get its contribution.
void a_dropped_work_goes_on(ProcessGroup& group) {
  const Tensor data = filled(group, DType::kF32, 4, [](std::int64_t) { return 2; });
  {
    const Work work = group.all_reduce(Memory::of(data));
    if (group.rank() != 0) {
      ASSERT_EQ(work.wait(), CommStatus::kOk);
      EXPECT_EQ(data.at(0), 2.0 * group.size());
    }
  }
  ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
}

// Collectives and messages are counted apart; refused calls are not counted.
void sequence_numbers_count_what_was_issued(ProcessGroup& group) {
  EXPECT_EQ(group.n_collectives(), 0);
  const Tensor data = zeros(group, DType::kF32, 2);
  EXPECT_THROW((void)group.broadcast(Memory::of(data), group.size()), ContractViolation);
  EXPECT_EQ(group.n_collectives(), 0);
  ASSERT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
  ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
  EXPECT_EQ(group.n_collectives(), 2);
  EXPECT_EQ(group.n_messages(), 0);
  if (group.size() > 1 && group.rank() < 2) {
    const Work work =
        group.rank() == 0 ? group.send(Memory::of(data), 1) : group.recv(Memory::of(data), 0);
    ASSERT_EQ(work.wait(), CommStatus::kOk);
    EXPECT_EQ(group.n_messages(), 1);
  }
  // Ranks that sent messages still meet at the same collective.
  ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
  EXPECT_EQ(group.n_collectives(), 3);
}

void a_generous_deadline_changes_nothing(ProcessGroup& group) {
  const Tensor data = filled(group, DType::kF32, 4, [](std::int64_t) { return 1; });
  const OpOptions options{.timeout = {std::int64_t{60'000'000'000}}};
  ASSERT_EQ(group.all_reduce(Memory::of(data), ReduceOp::kSum, options).wait(), CommStatus::kOk);
  EXPECT_EQ(data.at(0), group.size());
}

}  // namespace

std::vector<Case> work_cases() {
  return {
      {"WorksMayBeWaitedForInAnyOrder", works_may_be_waited_for_in_any_order, 1},
      {"WaitingTwiceAnswersTheSame", waiting_twice_answers_the_same, 1},
      {"PollingEndsWhenTheWorkIsDone", polling_ends_when_the_work_is_done, 1},
      {"ADroppedWorkStillCompletes", a_dropped_work_goes_on, 1},
      {"SequenceNumbersCountWhatWasIssued", sequence_numbers_count_what_was_issued, 1},
      {"AGenerousDeadlineChangesNothing", a_generous_deadline_changes_nothing, 1},
  };
}

}  // namespace lockstep::conformance
