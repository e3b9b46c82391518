// Groups, collectives, messages and works called with what does not fit.
#include <array>
#include <iostream>
#include <lockstep/comm.h>
#include <memory>
#include <vector>

#include "tests/front_door/misuse/misuse.h"

namespace lockstep::misuse {
namespace {

int reduces_other_counts() {
  return on_two([](RankContext& rank) {
    std::vector<float> data(rank.rank() == 0 ? 3 : 4, 1.0F);
    rank.world().all_reduce(Memory::of(std::span(data))).wait_or_throw();
  });
}

int reduces_other_dtypes() {
  return on_two([](RankContext& rank) {
    const Tensor data =
        Tensor::zeros(rank.runtime(), {2}, rank.rank() == 0 ? DType::kF32 : DType::kF64);
    rank.world().all_reduce(Memory::of(data)).wait_or_throw();
  });
}

int names_other_roots() {
  return on_two([](RankContext& rank) {
    std::vector<float> data(3, 1.0F);
    rank.world().broadcast(Memory::of(std::span(data)), rank.rank()).wait_or_throw();
  });
}

int names_a_root_that_is_not_there() {
  return on_two([](RankContext& rank) {
    std::vector<float> data(3, 1.0F);
    rank.world().broadcast(Memory::of(std::span(data)), 2).wait_or_throw();
  });
}

int names_a_negative_root() {
  return on_two([](RankContext& rank) {
    std::vector<float> data(3, 1.0F);
    rank.world().reduce(Memory::of(std::span(data)), -1).wait_or_throw();
  });
}

int sends_to_a_rank_that_is_not_there() {
  return on_two([](RankContext& rank) {
    float value = 1.0F;
    rank.world().send(Memory::of(std::span(&value, 1)), 5).wait_or_throw();
  });
}

int sends_to_itself() {
  return on_two([](RankContext& rank) {
    float value = 1.0F;
    rank.world().send(Memory::of(std::span(&value, 1)), rank.rank()).wait_or_throw();
  });
}

int receives_what_no_rank_sends() {
  return on_two([](RankContext& rank) {
    float value = 1.0F;
    if (rank.rank() == 1) {
      rank.world().recv(Memory::of(std::span(&value, 1)), 0, 7).wait_or_throw();
    }
  });
}

int reduces_a_null_pointer() {
  return on_two([](RankContext& rank) {
    rank.world().all_reduce(Memory{.data = nullptr, .count = 4}).wait_or_throw();
  });
}

int reduces_a_negative_count() {
  return on_two([](RankContext& rank) {
    float value = 1.0F;
    rank.world().all_reduce(Memory{.data = &value, .count = -4}).wait_or_throw();
  });
}

int reduces_an_undefined_tensor() {
  return on_two(
      [](RankContext& rank) { rank.world().all_reduce(Memory::of(Tensor{})).wait_or_throw(); });
}

int reduces_a_gradient_before_the_backward() {
  return on_two([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    for (const Variable& parameter : model.parameters()) {
      rank.world().all_reduce(Memory::of(parameter.grad())).wait_or_throw();
    }
  });
}

int gathers_into_too_few() {
  return on_two([](RankContext& rank) {
    float value = 1.0F;
    float into = 0.0F;
    const std::array outputs = {Memory::of(std::span(&into, 1))};
    rank.world().all_gather(outputs, Memory::of(std::span(&value, 1))).wait_or_throw();
  });
}

int gathers_into_a_small_tensor() {
  return on_two([](RankContext& rank) {
    std::vector<float> value(2);
    std::vector<float> into(3);
    rank.world()
        .all_gather_into_tensor(Memory::of(std::span(into)), Memory::of(std::span(value)))
        .wait_or_throw();
  });
}

int scatters_an_uneven_tensor() {
  return on_two([](RankContext& rank) {
    std::vector<float> whole(5);
    std::vector<float> part(2);
    rank.world()
        .reduce_scatter_tensor(Memory::of(std::span(part)), Memory::of(std::span(whole)))
        .wait_or_throw();
  });
}

int splits_unevenly() {
  return on_two([](RankContext& rank) {
    std::vector<float> in(4);
    std::vector<float> out(4);
    const std::array<std::int64_t, 2> splits = {1, 2};
    rank.world()
        .all_to_all_single(Memory::of(std::span(out)), Memory::of(std::span(in)), splits, splits)
        .wait_or_throw();
  });
}

int averages_integers_bitwise() {
  return on_two([](RankContext& rank) {
    std::vector<float> data(4);
    rank.world().all_reduce(Memory::of(std::span(data)), ReduceOp::kBxor).wait_or_throw();
  });
}

int leaves_a_rank_out() {
  return on_two([](RankContext& rank) {
    if (rank.rank() == 1) return;
    rank.world().barrier().wait_or_throw();
  });
}

int calls_in_another_order() {
  return on_two([](RankContext& rank) {
    float value = 1.0F;
    if (rank.rank() == 1) rank.world().barrier().wait_or_throw();
    rank.world().all_reduce(Memory::of(std::span(&value, 1))).wait_or_throw();
    if (rank.rank() == 0) rank.world().barrier().wait_or_throw();
  });
}

int uses_a_group_it_is_not_in() {
  return on_two([](RankContext& rank) {
    const std::array<std::int32_t, 1> only = {0};
    const auto group = rank.world().split(only);
    group->barrier().wait_or_throw();
  });
}

int makes_an_empty_group() {
  return on_two([](RankContext& rank) {
    const auto group = new_group(rank.world(), {});
    if (group != nullptr) group->barrier().wait_or_throw();
  });
}

int makes_a_group_with_a_stranger() {
  return on_two([](RankContext& rank) {
    const std::array<std::int32_t, 2> ranks = {0, 9};
    (void)new_group(rank.world(), ranks);
  });
}

int makes_a_group_with_a_rank_twice() {
  return on_two([](RankContext& rank) {
    const std::array<std::int32_t, 2> ranks = {1, 1};
    (void)rank.world().split(ranks);
  });
}

int makes_other_groups() {
  return on_two([](RankContext& rank) {
    const std::array<std::int32_t, 1> own = {rank.rank()};
    const auto group = rank.world().split(own);
    group->barrier().wait_or_throw();
    rank.world().barrier().wait_or_throw();
  });
}

int uses_a_group_of_another_rank() {
  ProcessGroup* of_rank_0 = nullptr;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    if (rank.rank() == 0) of_rank_0 = &rank.world();
    rank.world().barrier().wait_or_throw();
    if (rank.rank() == 1) of_rank_0->barrier().wait_or_throw();
    rank.world().barrier().wait_or_throw();
  }));
}

int waits_for_a_work_of_another_rank() {
  Work of_rank_0;
  return tell(run_ranks({.ranks = 2}, [&](RankContext& rank) {
    float value = 1.0F;
    const Work own = rank.world().all_reduce(Memory::of(std::span(&value, 1)));
    if (rank.rank() == 0) of_rank_0 = own;
    rank.world().barrier().wait_or_throw();
    if (rank.rank() == 1) of_rank_0.wait_or_throw();
    rank.world().barrier().wait_or_throw();
    if (rank.rank() == 0) of_rank_0 = {};
  }));
}

int waits_for_no_work() {
  return on_two([](RankContext&) {
    const Work none;
    none.wait_or_throw();
  });
}

int drops_the_memory_of_a_work() {
  return on_two([](RankContext& rank) {
    const Tensor data = Tensor::full(rank.runtime(), {4}, DType::kF32, 1.0);
    const Work work = rank.world().all_reduce(Memory::of(data));
    data.write<float>()[0] = 2.0F;
    (void)data.at(0);
    work.wait_or_throw();
  });
}

int coalesces_other_dtypes() {
  return on_two([](RankContext& rank) {
    std::vector<float> a(2);
    std::vector<double> b(2);
    const std::array buffers = {Memory::of(std::span(a)), Memory::of(std::span(b))};
    rank.world().all_reduce_coalesced(buffers).wait_or_throw();
  });
}

int waits_for_others_for_ever() {
  return on_two([](RankContext& rank) {
    if (rank.rank() == 0) monitored_barrier(rank.world(), Duration{0});
  });
}

constexpr Misuse kCollectiveMisuses[] = {
    {"ReducesOtherCounts", "all_reduce.*3.*4|3 f32|count", reduces_other_counts},
    {"ReducesOtherDtypes", "dtype", reduces_other_dtypes},
    {"NamesOtherRoots", "root", names_other_roots},
    {"NamesARootThatIsNotThere",
     "with_collectives.cc:[0-9]+: rank 0: root 2 of broadcast: the group has 2 ranks",
     names_a_root_that_is_not_there},
    {"NamesANegativeRoot",
     "rank 0: root -1 of reduce: the group has 2 ranks",
     names_a_negative_root},
    {"SendsToARankThatIsNotThere",
     "rank 0: peer 5 of send: the group has 2 ranks",
     sends_to_a_rank_that_is_not_there},
    {"SendsToItself", "rank 0: it is itself the peer of a send", sends_to_itself},
    {"ReceivesWhatNoRankSends", "rank 1: blocked forever in recv", receives_what_no_rank_sends},
    {"ReducesANullPointer",
     "rank 0: all_reduce got a null buffer of 4 f32",
     reduces_a_null_pointer},
    {"ReducesANegativeCount",
     "rank 0: all_reduce got a buffer of -4 elements",
     reduces_a_negative_count},
    {"ReducesAnUndefinedTensor",
     "an undefined tensor has no elements",
     reduces_an_undefined_tensor},
    {"ReducesAGradientBeforeTheBackward",
     "an undefined tensor has no elements: a gradient is undefined before",
     reduces_a_gradient_before_the_backward},
    {"GathersIntoTooFew",
     "rank 0: all_gather got 1 buffers: it takes one for each rank of the group, which has 2",
     gathers_into_too_few},
    {"GathersIntoASmallTensor", "all_gather has 3 elements, not 4", gathers_into_a_small_tensor},
    {"ScattersAnUnevenTensor", "reduce_scatter has 5 elements, not 4", scatters_an_uneven_tensor},
    {"SplitsUnevenly", "total dim 0 size: .1, 2. of 4 elements", splits_unevenly},
    {"AveragesIntegersBitwise",
     "rank 0: cannot use bxor with non-integral dtype f32",
     averages_integers_bitwise},
    {"LeavesARankOut",
     "rank 0: blocked forever in barrier.*[Mm]issing: rank 1|rank 0: blocked forever in barrier",
     leaves_a_rank_out},
    {"CallsInAnotherOrder", "COLLECTIVES-MATCH", calls_in_another_order},
    {"UsesAGroupItIsNotIn",
     "rank 1 accessed invalid memory at address [0-9]+: a null pointer, such as the group that "
     "split",
     uses_a_group_it_is_not_in,
     true},
    {"MakesAnEmptyGroup", "new_group got no ranks of the world of 2", makes_an_empty_group},
    {"MakesAGroupWithAStranger",
     "new_group got ranks 0, 9: the world has 2",
     makes_a_group_with_a_stranger},
    {"MakesAGroupWithARankTwice",
     "a new group of ranks 1, 1 lists a rank twice",
     makes_a_group_with_a_rank_twice},
    {"MakesOtherGroups",
     "rank 0 created one of rank 0 where rank 1 created one of rank 1 .law COLLECTIVES-MATCH",
     makes_other_groups},
    {"UsesAGroupOfAnotherRank", "rank 0 is used by rank 1", uses_a_group_of_another_rank},
    {"WaitsForAWorkOfAnotherRank", "all_reduce", waits_for_a_work_of_another_rank},
    {"WaitsForNoWork", "an empty Work is used: nothing was posted", waits_for_no_work},
    {"WritesToTheMemoryOfAWork", "IN-FLIGHT-UNTOUCHED", drops_the_memory_of_a_work},
    {"CoalescesOtherDtypes",
     "all_reduce got buffers of f32 on cpu and of f64 on cpu",
     coalesces_other_dtypes},
    {"WaitsWithoutATimeout", "needs a positive timeout, not 0 ns", waits_for_others_for_ever},
};

}  // namespace

std::span<const Misuse> with_collectives() { return kCollectiveMisuses; }

}  // namespace lockstep::misuse
