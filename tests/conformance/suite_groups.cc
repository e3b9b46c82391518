#include <set>

#include "lockstep/base/check.h"
#include "lockstep/collectives/checked_group.h"
#include "lockstep/collectives/monitored_barrier.h"
#include "lockstep/collectives/new_group.h"

#include "tests/conformance/process_group_suite.h"
#include "tests/conformance/values.h"

namespace lockstep::conformance {

namespace {

void knows_its_members(ProcessGroup& group) {
  EXPECT_GE(group.size(), 1);
  EXPECT_EQ(group.id(), 0);
  EXPECT_EQ(to_int(group.world_rank(group.rank())), group.rank());
  EXPECT_THROW((void)group.world_rank(group.size()), ContractViolation);
  EXPECT_FALSE(group.backend().empty());
  EXPECT_FALSE(group.reduction_order().empty());
}

void splits_into_groups_of_their_own(ProcessGroup& group) {
  std::vector<std::int32_t> even;
  std::vector<std::int32_t> odd;
  for (std::int32_t r = 0; r < group.size(); ++r) (r % 2 == 0 ? even : odd).push_back(r);
  const auto evens = group.split(even);
  const auto odds = group.split(odd);
  const bool is_even = group.rank() % 2 == 0;
  ASSERT_EQ(evens != nullptr, is_even);
  ASSERT_EQ(odds != nullptr, !is_even);
  ProcessGroup& mine = is_even ? *evens : *odds;
  const auto& members = is_even ? even : odd;
  EXPECT_EQ(mine.size(), static_cast<std::int32_t>(members.size()));
  EXPECT_EQ(to_int(mine.world_rank(mine.rank())), group.rank());
  EXPECT_NE(mine.id(), group.id());
  double sum = 0;
  for (const std::int32_t r : members) sum += r;

  // Both groups at work at once, waited for in the other order.
  const Tensor small = filled(group, DType::kF32, 3, [&](std::int64_t) { return group.rank(); });
  const Tensor large = filled(group, DType::kF32, 3, [&](std::int64_t) { return 1; });
  const Work in_mine = mine.all_reduce(Memory::of(small));
  const Work in_world = group.all_reduce(Memory::of(large));
  ASSERT_EQ(in_world.wait(), CommStatus::kOk);
  ASSERT_EQ(in_mine.wait(), CommStatus::kOk);
  EXPECT_EQ(small.at(0), sum);
  EXPECT_EQ(large.at(0), group.size());
}

// Traces and laws know a group by its number alone.
void groups_of_a_job_have_numbers_of_their_own(ProcessGroup& group) {
  std::vector<std::int32_t> even;
  std::vector<std::int32_t> odd;
  for (std::int32_t r = 0; r < group.size(); ++r) (r % 2 == 0 ? even : odd).push_back(r);
  const auto evens = group.split(even);
  const auto odds = group.split(odd);
  const bool is_even = group.rank() % 2 == 0;
  ProcessGroup& half = is_even ? *evens : *odds;
  std::vector<std::int32_t> all_of_half;
  for (std::int32_t r = 0; r < half.size(); ++r) all_of_half.push_back(r);
  // Each half by itself, at the same time.
  const auto first = half.split(all_of_half);
  const auto second = half.split(all_of_half);
  const auto whole = group.split(std::vector<std::int32_t>{0});

  std::vector<std::int64_t> numbers(3 * static_cast<std::size_t>(group.size()));
  const std::int64_t own[] = {half.id(), first->id(), second->id()};
  const Tensor mine = filled(group, DType::kI64, 3, [&](std::int64_t i) { return own[i]; });
  const Tensor all = Tensor::zeros(group.runtime(), {3 * group.size()}, DType::kI64);
  ASSERT_EQ(group.all_gather_into_tensor(Memory::of(all), Memory::of(mine)).wait(),
            CommStatus::kOk);
  std::set<double> distinct = {0.0};  // The world's.
  for (std::int64_t i = 0; i < all.n_elems(); ++i) distinct.insert(all.at(i));
  if (whole != nullptr) {
    EXPECT_FALSE(distinct.contains(whole->id()));
  }
  const std::size_t n_halves = group.size() > 1 ? 2 : 1;
  EXPECT_EQ(distinct.size(), 1 + 3 * n_halves);
}

// The list's order numbers the members of the new group.
void a_split_may_renumber_its_members(ProcessGroup& group) {
  std::vector<std::int32_t> reversed;
  for (std::int32_t r = group.size(); r-- > 0;) reversed.push_back(r);
  const auto other = group.split(reversed);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->rank(), group.size() - 1 - group.rank());
  const Tensor data = filled(group, DType::kI32, 1, [&](std::int64_t) { return group.rank(); });
  ASSERT_EQ(other->broadcast(Memory::of(data), 0).wait(), CommStatus::kOk);
  EXPECT_EQ(data.at(0), group.size() - 1);
}

void refuses_broken_contracts(ProcessGroup& group) {
  const Tensor data = Tensor::zeros(group.runtime(), {4}, DType::kF32);
  const Memory memory = Memory::of(data);
  const Memory null{nullptr, 4, DType::kF32, Device::kCpu};
  const std::vector<Memory> too_many(static_cast<std::size_t>(group.size()) + 1, memory);
  const auto refused = [](const std::function<Work()>& call) {
    EXPECT_THROW((void)call(), ContractViolation);
  };
  refused([&] { return group.broadcast(memory, group.size()); });
  refused([&] { return group.reduce(memory, -1); });
  refused([&] { return group.all_reduce(null); });
  refused([&] { return group.all_reduce(memory, ReduceOp::kBxor); });
  refused([&] { return group.all_gather(too_many, memory); });
  refused([&] { return group.reduce_scatter(memory, too_many); });
  refused([&] { return group.all_to_all(too_many, too_many); });
  refused([&] { return group.send(memory, group.rank()); });
  refused([&] { return group.recv(memory, group.rank()); });
  // Nothing of it was posted: the group is as good as new.
  EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
}

// Sorted unless asked otherwise; ids differ; all ranks take part in making every group.
void new_groups_sort_their_ranks(ProcessGroup& group) {
  std::vector<std::int32_t> reversed;
  for (std::int32_t r = group.size(); r-- > 0;) reversed.push_back(r);
  const auto sorted = new_group(group, reversed);
  const auto listed = new_group(group, reversed, GroupNumbering::kAsListed);
  ASSERT_NE(sorted, nullptr);
  ASSERT_NE(listed, nullptr);
  EXPECT_EQ(sorted->rank(), group.rank());
  EXPECT_EQ(listed->rank(), group.size() - 1 - group.rank());
  EXPECT_NE(sorted->id(), listed->id());
  EXPECT_EQ(group_rank_of(*listed, Rank{group.rank()}), listed->rank());
  EXPECT_THROW((void)group_rank_of(*listed, Rank{group.size()}), ContractViolation);
  EXPECT_EQ(sorted->n_collectives(), 0);
}

void new_groups_refuse_bad_lists(ProcessGroup& group) {
  const std::vector<std::int32_t> none;
  const std::vector<std::int32_t> twice = {0, 0};
  const std::vector<std::int32_t> outside = {group.size()};
  EXPECT_THROW((void)new_group(group, none), ContractViolation);
  EXPECT_THROW((void)new_group(group, twice), ContractViolation);
  EXPECT_THROW((void)new_group(group, outside), ContractViolation);
  EXPECT_THROW((void)new_subgroups(group, group.size() + 1), ContractViolation);
  EXPECT_THROW((void)new_subgroups(group, 0), ContractViolation);
  if (group.size() > 2) {
    EXPECT_THROW((void)new_subgroups(group, group.size() - 1), ContractViolation);
  }
  EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
}

void subgroups_are_blocks_of_the_world(ProcessGroup& group) {
  for (std::int32_t size = 1; size <= group.size(); ++size) {
    if (group.size() % size != 0) continue;
    const auto block = new_subgroups(group, size);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block->size(), size);
    EXPECT_EQ(block->rank(), group.rank() % size);
    EXPECT_EQ(to_int(block->world_rank(0)), group.rank() / size * size);
    const Tensor data = filled(group, DType::kI64, 1, [](std::int64_t) { return 1; });
    ASSERT_EQ(block->all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
    EXPECT_EQ(data.at(0), size);
  }
}

// Two groups of the same members keep their sequences apart, whichever order works are waited in.
void two_groups_interleave(ProcessGroup& group) {
  std::vector<std::int32_t> all;
  for (std::int32_t r = 0; r < group.size(); ++r) all.push_back(r);
  const auto other = group.split(all);
  std::vector<Tensor> data;
  std::vector<Work> works;
  for (int i = 0; i < 6; ++i) {
    data.push_back(filled(group, DType::kI32, 4, [&](std::int64_t) { return i; }));
    // Odd ranks issue the two groups' operations in the other order.
    const bool first_here = (i % 2 == 0) == (group.rank() % 2 == 0);
    ProcessGroup& here = first_here ? group : *other;
    works.push_back(here.all_reduce(Memory::of(data.back())));
  }
  for (std::size_t i = works.size(); i-- > 0;) ASSERT_EQ(works[i].wait(), CommStatus::kOk);
  EXPECT_EQ(group.n_collectives(), 3);
  EXPECT_EQ(other->n_collectives(), 3);
  // Operation k of a group met operation k of the group elsewhere: 2k of one half, 2k + 1 of the
  // other.
  const double n_even = (group.size() + 1) / 2;
  const double n_odd = group.size() / 2;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double low = static_cast<double>(i / 2 * 2);
    const bool even_posts_low = (i % 2 == 0) == (group.rank() % 2 == 0);
    const double expected =
        even_posts_low ? n_even * low + n_odd * (low + 1) : n_even * (low + 1) + n_odd * low;
    EXPECT_EQ(data[i].at(3), expected) << i;
  }
}

void checked_groups_let_healthy_calls_pass(ProcessGroup& group) {
  std::vector<std::int32_t> all;
  for (std::int32_t r = 0; r < group.size(); ++r) all.push_back(r);
  const auto checked = make_checked_group(group.split(all), {std::int64_t{60'000'000'000}});
  const Tensor data = filled(group, DType::kF32, 3, [&](std::int64_t) { return group.rank(); });
  ASSERT_EQ(checked->all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
  EXPECT_EQ(data.at(0), group.size() * (group.size() - 1) / 2);
  ASSERT_EQ(checked->barrier().wait(), CommStatus::kOk);
}

// Every member fails before anything is moved, with an error that names the field.
void checked_groups_name_the_field(ProcessGroup& group) {
  std::vector<std::int32_t> all;
  for (std::int32_t r = 0; r < group.size(); ++r) all.push_back(r);
  const auto checked = make_checked_group(group.split(all), {std::int64_t{60'000'000'000}});
  const Tensor data = filled(group, DType::kF32, 3, [&](std::int64_t) { return group.rank(); });
  const ReduceOp op = group.rank() == 1 ? ReduceOp::kMax : ReduceOp::kSum;
  try {
    (void)checked->all_reduce(Memory::of(data), op);
    ADD_FAILURE() << "a max met a sum";
  } catch (const CommError& error) {
    EXPECT_EQ(error.status(), CommStatus::kMismatch);
    const std::string text = error.what();
    EXPECT_NE(text.find("reduce differs at #0: rank "), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1 max"), std::string::npos) << text;
  }
  EXPECT_EQ(data.at(0), group.rank());
}

void monitored_barriers_let_all_ranks_pass(ProcessGroup& group) {
  for (const bool wait_all : {false, true}) {
    EXPECT_NO_THROW(monitored_barrier(group, {std::int64_t{60'000'000'000}}, wait_all));
  }
}

}  // namespace

std::vector<Case> group_cases() {
  return {
      {"KnowsItsMembers", knows_its_members, 1},
      {"SplitsIntoSeparateGroups", splits_into_groups_of_their_own, 1},
      {"ASplitMayRenumberItsMembers", a_split_may_renumber_its_members, 1},
      {"GroupsOfAJobHaveNumbersOfTheirOwn", groups_of_a_job_have_numbers_of_their_own, 1},
      {"RefusesBrokenContracts", refuses_broken_contracts, 1},
      {"NewGroupsSortTheirRanks", new_groups_sort_their_ranks, 1},
      {"NewGroupsRefuseBadLists", new_groups_refuse_bad_lists, 1},
      {"SubgroupsAreBlocksOfTheWorld", subgroups_are_blocks_of_the_world, 1},
      {"TwoGroupsInterleave", two_groups_interleave, 1},
      {"CheckedGroupsLetHealthyCallsPass", checked_groups_let_healthy_calls_pass, 1},
      {"CheckedGroupsNameTheField", checked_groups_name_the_field, 2},
      {"MonitoredBarriersLetAllRanksPass", monitored_barriers_let_all_ranks_pass, 1},
  };
}

}  // namespace lockstep::conformance
